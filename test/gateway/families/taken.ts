import { Readable } from 'node:stream';
import type { AppError } from '../../../domain/errors';
import { createArrivals } from '../../../gateway/call/arrivals';
import type { Identified } from '../../../gateway/call/call';
import type { Sound } from '../../../gateway/counting/sound';
import type { Family } from '../../../gateway/families/family';
import type { ClientRequest } from '../../../gateway/families/request';
import type { Wire } from '../../../gateway/providers/kind';
import { readRequest } from '../../../gateway/stages/read';

const BYTES_MAX = 25 * 1_048_576;
const settings = {
  body_limit_bytes: BYTES_MAX,
  audio_limit_bytes: BYTES_MAX,
  arriving_limit_bytes: BYTES_MAX,
  identity: { mode: 'gateway_key' },
};
const identity = { key_id: 'key', org_id: 'org' };
const arrivals = createArrivals();
const sound: Pick<Sound, 'lasts'> = {
  lasts: async () => ({ seconds: 1, seconds_most: 1 }),
};

/** A wire that takes whatever its shape has. */
export const plain_wire: Wire = { key: 'bearer' };

/**
 * Reads a body and its input as the stages ahead of a reserve do: if this throws, nothing is held
 * yet and nothing has gone upstream.
 */
export async function take(
  body: object | string | Buffer,
  family: Family,
  type = 'application/json',
): Promise<ClientRequest> {
  const is_ready = typeof body === 'string' || Buffer.isBuffer(body);
  const bytes = Buffer.from(is_ready ? body : JSON.stringify(body));
  const req = Object.assign(Readable.from([bytes]), { headers: { 'content-type': type } });
  const gateway = { sound, arrivals };
  const call = { ctx: { req }, family, snapshot: { settings }, gateway, identity };
  const { request } = await readRequest(call as unknown as Identified);
  family.input(request.body);
  family.units?.(request.body, 1);
  return request;
}

export interface Refusal {
  status: number;
  error: { code: string; message: string; param: string | null };
}

/** The refusal that a body is answered with. */
export async function refusalOf(taken: Promise<ClientRequest>): Promise<Refusal> {
  const error = await taken.then(
    () => new Error('The body was taken.'),
    (thrown: AppError) => thrown,
  );
  if (!('code' in error)) throw error;
  const { status, code, message, details } = error;
  return { status, error: { code, message, param: details.param ?? null } };
}
