import { readdirSync, readFileSync } from 'node:fs';

// Facts about processes, and about their remains, for the tests that kill.

export function kill(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false;
  }
}

/** True if a process that was killed has ended. */
export function isGone(pid: number): boolean {
  try {
    return !process.kill(pid, 0);
  } catch {
    return true;
  }
}

/** A session of the API: PostgreSQL then ends all sessions and recovers. */
export function backendOf(postmaster: number): number | undefined {
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8');
      if (parent === postmaster && /svc svc 127\.0\.0\.1/.test(command)) return Number(name);
    } catch {
      // Ended meanwhile.
    }
  }
  return undefined;
}

export function isReady(url: string): Promise<boolean> {
  return fetch(`${url}/readyz`).then(
    ({ status }) => status === 200,
    () => false,
  );
}

export interface Answered {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers are JSON of many shapes.
  body: any;
}

export async function send(
  url: string,
  key: string,
  body: object | undefined,
  headers: object = {},
): Promise<Answered> {
  const answer = await fetch(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: answer.status, body: await answer.json() };
}
