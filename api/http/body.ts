import type { Context } from 'koa';
import getRawBody from 'raw-body';
import { AppError } from '../../domain/errors';
import { readObject } from '../../domain/json';
import { jsonText } from '../../runtime/conventions';

/** How large a body may be. */
interface Bounds {
  bytes: number;
  /** How many members and items it may have; undefined: nobody counts them or compares names. */
  members?: number | undefined;
}

/** Bodies of people are small. */
const SMALL: Bounds = { bytes: 65_536, members: 2_000 };
/** A whole configuration of a gateway, by a platform admin. */
export const LARGE: Bounds = { bytes: 1_048_576, members: 100_000 };
/** A plan of all prices of all catalogs, by a platform admin. */
export const HUGE: Bounds = { bytes: 8_388_608, members: 1_000_000 };
/** A batch of 64 reserves is about 100 kB. */
const OF_MACHINES: Bounds = { bytes: 1_048_576 };

/** The bounds of a route's body: of gateways', or by what the row says. */
export function boundsOf(
  row: { is_large: boolean; is_huge: boolean; members_max?: number },
  is_of_machines: boolean,
): Bounds {
  if (is_of_machines) return OF_MACHINES;
  const ofPeople = row.is_large ? LARGE : SMALL;
  const bounds = row.is_huge ? HUGE : ofPeople;
  return { ...bounds, members: row.members_max ?? bounds.members };
}

/** A body that takes longer to arrive than this is not waited for. */
const ARRIVAL_MS = 10_000;

/** Reads a JSON object. An absent body is an empty one. */
export async function readJson(http: Context, bounds: Bounds): Promise<Record<string, unknown>> {
  const bytes = await readBytes(http, bounds.bytes);
  if (bytes.length === 0) return {};
  const encoding = http.get('content-encoding');
  if (!http.is('json', '+json') || (encoding !== '' && encoding !== 'identity')) {
    throw new AppError(
      'unsupported_media_type',
      'Send the body as application/json, without a content encoding.',
    );
  }
  return readObject(jsonText(http, bytes), bounds.members);
}

/** A request's body as it came. */
export async function readBytes(http: Context, limit: number): Promise<Buffer> {
  const { req } = http;
  let bytes: Buffer | undefined;
  try {
    bytes = await inTime(ARRIVAL_MS, getRawBody(req, { limit }));
  } catch (error) {
    if ((error as { type?: string }).type === 'entity.too.large') {
      // The rest is read and dropped, so that the client gets the answer and its connection stays
      // in step.
      req.resume();
      throw new AppError('payload_too_large', `The body may have at most ${limit} bytes.`);
    }
    throw new AppError(
      'invalid_request',
      'The body could not be read to its end. Send all of it again.',
    );
  }
  if (bytes !== undefined) return bytes;
  http.set('connection', 'close');
  throw new AppError('invalid_request', `The body did not arrive within ${ARRIVAL_MS} ms.`, {
    status: 408,
  });
}

/** Undefined if it takes longer. */
function inTime<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms, undefined);
    void promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
