import { openDatabase } from '../../runtime/database';
import { root } from '../../runtime/root';
import { callerOf, noteUse, send } from '../alone-reserve';
import { chatBody, firstBytes, median } from '../load';
import { measured_folder } from '../programs';
import type { Row } from '../row';
import { ownerOf, reserveTimes } from './gateway';
import { type Installation, keyOf } from './installation';

const ROUNDS = 10;
const TURN = 60;

/**
 * Where the time of one call alone goes: the upstream's answer, the reserve's statement, the way to
 * it through the API and back, and the rest, which is the gateway's. All in turns, each measured by
 * itself, so that the parts add up to the call but for what runs beside it: the settlement of the
 * call before, which travels with the reserve.
 */
export async function partsRows({ stack }: Installation): Promise<Row[]> {
  // The statement is that of this folder.
  if (measured_folder !== root) return [];
  const calls = (url: string, headers: Record<string, string>) =>
    firstBytes({
      url,
      path: '/v1/chat/completions',
      headers,
      body: chatBody,
      requests: TURN,
      pause_ms: 0,
    });
  const db = openDatabase(stack.database_url, 1);
  const caller = await callerOf(stack.control_plane_key, await ownerOf(stack));
  const statements = async () => {
    const times: number[] = [];
    await noteUse(db, caller);
    for (let n = 0; n < TURN; n += 1) {
      const started = performance.now();
      await send(db, caller);
      times.push(performance.now() - started);
    }
    return times;
  };
  const times = { call: [], upstream: [], reserve: [], statement: [] } as Record<Part, number[]>;
  for (let round = -1; round < ROUNDS; round += 1) {
    const taken = {
      call: await calls(stack.gateway.url, keyOf(stack)),
      upstream: await calls(stack.upstream.url, {}),
      reserve: await reserveTimes(stack, TURN),
      statement: await statements(),
    };
    // The first round only warms what the others need.
    if (round < 0) continue;
    for (const part of Object.keys(taken) as Part[]) times[part].push(...taken[part]);
  }
  await db.destroy();
  return [rowOf(times)];
}

type Part = 'call' | 'upstream' | 'reserve' | 'statement';

function rowOf(times: Record<Part, number[]>): Row {
  const of = (part: Part) => median(times[part]);
  const [call, upstream, reserve, statement] = [
    of('call'),
    of('upstream'),
    of('reserve'),
    of('statement'),
  ];
  const words = [
    `upstream ${upstream.toFixed(2)}`,
    `the reserve's statement and commit ${statement.toFixed(2)}`,
    `the API and the way to it ${(reserve - statement).toFixed(2)}`,
    `the gateway, and the settlement that travels with the reserve ${(call - upstream - reserve).toFixed(2)}`,
  ];
  return {
    measure: 'priced chat call, 1 in flight, everything on: where its time goes',
    figure: `${call.toFixed(2)} ms: ${words.join(', ')}`,
    isMet: true,
  };
}
