import { useEffect } from 'react';
import { ownHeaders, Refusal } from '../api/client';
import { refresh } from '../api/queries';
import { pathsOf } from './concerns';

// One connection a browser: the tab that holds the lock reads the stream of events and tells the
// others. When it goes, the next takes the lock and resumes after the last event that was told.

interface Told {
  id: string;
  type: string;
}

/** Many events come at once; the screens read once for all of them. */
const TOGETHER_MS = 250;
const RETRY_MS = 1_000;
const RETRY_MAX_MS = 15_000;
/** The API says each 5 s that it is there; without a word for so long the connection is dead. */
const SILENT_MS = 15_000;

/**
 * Keeps what is shown up to date while the shell is on screen. A tab that shows something of
 * another session than its browser's leaves the lock to one that does not.
 */
export function useLive(is_elsewhere: boolean): void {
  useEffect(() => {
    if (is_elsewhere) return;
    const stop = new AbortController();
    const channel = new BroadcastChannel('svc-events');
    const place = { last_id: '' };
    const due = new Set<string>();
    let timer: number | undefined;
    const hear = ({ id, type }: Told) => {
      place.last_id = id;
      due.add('/api/events');
      for (const path of pathsOf(type)) due.add(path);
      timer ??= window.setTimeout(() => void readTogether(), TOGETHER_MS);
    };
    /** One round at a time: another would begin each read anew before it has ended. */
    const readTogether = async () => {
      const paths = [...due];
      due.clear();
      await refresh(...paths).catch(() => undefined);
      const goes_on = due.size > 0 && !stop.signal.aborted;
      timer = goes_on ? window.setTimeout(() => void readTogether(), TOGETHER_MS) : undefined;
    };
    channel.onmessage = ({ data }: MessageEvent<Told>) => hear(data);
    const tell = (told: Told) => {
      hear(told);
      channel.postMessage(told);
    };
    const take = async () => {
      for (;;) {
        const options = { signal: stop.signal };
        const locked = () => follow(stop.signal, place, tell);
        if ((await navigator.locks.request('svc-events', options, locked)) === 'over') return;
        // Meanwhile a tab may take the lock that shows what the browser is signed in to.
        await waited(RETRY_MS);
      }
    };
    void take().catch(() => undefined);
    return () => {
      stop.abort();
      window.clearTimeout(timer);
      channel.close();
    };
  }, [is_elsewhere]);
}

/**
 * Reads one connection after the other: until it is `over`, or for as long as the session is of
 * what the tab shows. An operator who signs in anew is for a moment in no organization.
 */
async function follow(
  stop: AbortSignal,
  place: { last_id: string },
  tell: (told: Told) => void,
): Promise<'over' | 'elsewhere'> {
  let pause = RETRY_MS;
  while (!stop.aborted) {
    const began = performance.now();
    const { status, code } = await read(stop, place, tell).catch(() => ({ status: 0, code: '' }));
    // The lock is the next tab's at once.
    if (stop.aborted) return 'over';
    if (code === 'browser_not_allowed') return 'elsewhere';
    // 422: an operator who looks at no organization.
    if (status === 403 || status === 422) return 'over';
    // The event is not kept any more: begin with what is new, after a look at everything.
    if (status === 404) {
      place.last_id = '';
      void refresh('/api/');
    }
    pause = performance.now() - began > 10_000 ? RETRY_MS : Math.min(pause * 2, RETRY_MAX_MS);
    await waited(pause * (0.5 + Math.random() / 2));
  }
  return 'over';
}

function waited(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Reads one connection until it ends or falls silent; resolves with what it began with. */
async function read(
  stop: AbortSignal,
  place: { last_id: string },
  tell: (told: Told) => void,
): Promise<{ status: number; code: string }> {
  const watch = watchOf(stop);
  try {
    const answer = await fetch('/api/events/stream', {
      headers: {
        ...ownHeaders(),
        accept: 'text/event-stream',
        ...(place.last_id === '' ? {} : { 'last-event-id': place.last_id }),
      },
      signal: watch.signal,
    });
    const { status } = answer;
    if (!answer.ok || answer.body === null) {
      const said = (await answer.json().catch(() => ({}))) as Record<string, unknown>;
      return { status, code: new Refusal(status, said).code };
    }
    // What happened while nobody listened is read now.
    if (place.last_id === '') void refresh('/api/');
    const texts = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      watch.heard();
      const { done, value } = await texts.read();
      if (done) return { status, code: '' };
      const frames = (rest + value).split('\n\n');
      rest = frames.pop() ?? '';
      for (const frame of frames) {
        const id = /^id: (.*)$/m.exec(frame)?.[1];
        const type = /^event: (.*)$/m.exec(frame)?.[1];
        if (id !== undefined && type !== undefined) tell({ id, type });
        // How far a stream has read that shows nothing.
        else if (id !== undefined) place.last_id = id;
      }
    }
  } finally {
    watch.end();
  }
}

/** A signal that aborts with another one, and once nothing was heard for too long. */
function watchOf(stop: AbortSignal) {
  const own = new AbortController();
  const abort = () => own.abort();
  stop.addEventListener('abort', abort);
  let timer = window.setTimeout(abort, SILENT_MS);
  return {
    signal: own.signal,
    heard: () => {
      window.clearTimeout(timer);
      timer = window.setTimeout(abort, SILENT_MS);
    },
    end: () => {
      window.clearTimeout(timer);
      stop.removeEventListener('abort', abort);
    },
  };
}
