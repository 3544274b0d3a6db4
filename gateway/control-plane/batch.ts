import type { Dispatcher } from 'undici';
import type { BatchLine } from '../../domain/ledger/calls';
import type { Clock } from './clock';
import { parseReply, type Reply } from './replies';

const LF = 10;

/** One reserve, settle or extend that waits for its batch, or is on its way with it. */
export interface Item {
  id: string;
  /** The item as it stands in the batch; written once. */
  text: string;
  /** Nobody waits for a settlement: it may wait for a reserve to travel with. */
  is_patient: boolean;
  /** False once its time is up: then nobody waits and it is not sent again. */
  is_live: boolean;
  /** From when its batch waits for a connection: if that comes up, all of the batch is written. */
  was_sent: boolean;
  /** The address that it was sent to last. */
  at: number | undefined;
  answer(reply: Reply): void;
}

/** Events that travel with a batch. */
export interface Load {
  id: string;
  /** The list as it stands in the batch. */
  text: string;
  /** Called once; false: they are to go another way. */
  answer(is_taken: boolean): void;
}

/**
 * One batch that was sent: undici calls it with the answer, which answers the items line by line.
 */
export class SentBatch implements Dispatcher.DispatchHandler {
  /** The next batch waits until this one is answered, or has been out for a while. */
  holds_next = true;
  timer: NodeJS.Timeout | undefined;
  load: Load | undefined;
  private readonly items: Map<string, Item>;
  /** Those that go for the first time, until the batch is written. */
  private unwritten: Item[];
  private readonly clock: Clock;
  private readonly onEnd: (refusal?: Reply) => void;
  private status = 0;
  private tail = '';
  private decoder = new TextDecoder();

  constructor(
    items: Item[],
    clock: Clock,
    { load, onEnd }: { load: Load | undefined; onEnd: (refusal?: Reply) => void },
  ) {
    this.load = load;
    this.items = new Map(items.map((item) => [item.id, item]));
    this.unwritten = items.filter((item) => !item.was_sent);
    for (const item of items) item.was_sent = true;
    this.clock = clock;
    this.onEnd = onEnd;
  }

  unanswered(): Item[] {
    return [...this.items.values()].filter((item) => item.is_live);
  }

  onRequestStart(): void {
    this.unwritten = [];
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    { date }: Record<string, string | string[] | undefined>,
  ): void {
    this.status = status;
    this.clock.set(date);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.status !== 200 || chunk[chunk.length - 1] !== LF || this.tail !== '') {
      this.tail += this.decoder.decode(chunk, { stream: true });
      if (this.status !== 200) return;
      const end = this.tail.lastIndexOf('\n');
      if (end < 0) return;
      this.lines(this.tail.slice(0, end));
      this.tail = this.tail.slice(end + 1);
    } else this.lines(chunk.toString('utf8'));
  }

  onResponseEnd(): void {
    const is_refused = this.status >= 400 && this.status < 500;
    this.onEnd(is_refused ? { status: this.status, body: { refused_call: true } } : undefined);
  }

  onResponseError(): void {
    // No connection came up.
    for (const item of this.unwritten) item.was_sent = false;
    this.onEnd();
  }

  private answerLoad(is_taken: boolean): void {
    this.load?.answer(is_taken);
    this.load = undefined;
  }

  private lines(text: string): void {
    for (const line of text.split('\n')) {
      const parsed = line === '' ? undefined : (parseReply(line) as BatchLine | undefined);
      if (parsed === undefined) continue;
      if (parsed.id === this.load?.id) this.answerLoad(parsed.status === 200);
      const item = this.items.get(parsed.id);
      if (item === undefined) continue;
      this.items.delete(item.id);
      item.answer({ status: parsed.status, body: parsed.body as Reply['body'] });
    }
  }
}
