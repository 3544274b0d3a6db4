/** The kinds of row, by the prefix of their ids. */
type IdPrefix =
  | 'org'
  | 'team'
  | 'user'
  | 'agent'
  | 'key'
  | 'wal'
  | 'txn'
  | 'xfer'
  | 'price'
  | 'res'
  | 'ticket'
  | 'evt'
  | 'pay'
  | 'dest'
  | 'ref'
  | 'req'
  | 'rollout'
  | 'nd'
  | 'pkey';

/**
 * A time-ordered id: prefix, 12 hex digits of milliseconds since 1970, 20 hex digits of a random
 * UUID. The SQL function `new_id` makes the same form; an event's day is read back from it.
 */
export function newId(prefix: IdPrefix, now_ms: number = Date.now()): string {
  // randomUUID draws on a pool of random bytes; getRandomValues asks for them each time.
  const uuid = crypto.randomUUID();
  return `${prefix}_${timeDigits(now_ms)}${uuid.slice(14, 18)}${uuid.slice(19, 23)}${uuid.slice(24)}`;
}

let last_ms = -1;
let last_digits = '';

/** Numbers above 32 bits are written slowly, and many ids are made in one millisecond. */
function timeDigits(now_ms: number): string {
  if (now_ms !== last_ms) {
    last_ms = now_ms;
    last_digits = now_ms.toString(16).padStart(12, '0');
  }
  return last_digits;
}

/**
 * Ids of one process that differ by a counter, for those made thousands of times a second: 40
 * random bits of the process, then a number that goes on from a random one. Nobody may have to
 * guess them: they are no secrets.
 */
export function countedIds(prefix: IdPrefix): (now_ms: number) => string {
  const [process_tag = 0, first = 0, low = 0] = crypto.getRandomValues(new Uint32Array(3));
  const tag =
    process_tag.toString(16).padStart(8, '0') + (low & 0xff).toString(16).padStart(2, '0');
  let next = first;
  return (now_ms) => {
    next = (next + 1) % 0x1_00_0000_0000;
    return `${prefix}_${timeDigits(now_ms)}${tag}${next.toString(16).padStart(10, '0')}`;
  };
}
