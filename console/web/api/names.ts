import { call } from './client';

// How people call what ids stand for. A table asks for the name of each id that it shows; what is
// asked within a moment is asked together.

/** The API answers so many at once. */
const TOGETHER = 100;

type Answered = (name: string | null) => void;
interface Asked {
  answered: Answered;
  failed: (error: unknown) => void;
}

let waiting = new Map<string, Asked[]>();

/** The name of one id; null: it has none, or none that the viewer may see. */
export function nameOf(id: string): Promise<string | null> {
  return new Promise((answered, failed) => {
    if (waiting.size === 0) setTimeout(askTogether, 0);
    waiting.set(id, [...(waiting.get(id) ?? []), { answered, failed }]);
  });
}

function askTogether(): void {
  const asked = waiting;
  waiting = new Map();
  namesOf([...asked.keys()]).then(
    (names) => {
      for (const [id, all] of asked) for (const one of all) one.answered(names.get(id) ?? null);
    },
    (error) => {
      for (const all of asked.values()) for (const one of all) one.failed(error);
    },
  );
}

/** The names of many ids, by id; those without one lack. */
export async function namesOf(ids: readonly string[]): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  const distinct = [...new Set(ids)];
  for (let start = 0; start < distinct.length; start += TOGETHER) {
    const part = distinct.slice(start, start + TOGETHER).join(',');
    const answer = await call('GET /api/names', { query: { ids: part } });
    for (const { id, name } of answer.names) names.set(id, name);
  }
  return names;
}
