import { once } from 'node:events';
import { get as httpGet, type IncomingMessage } from 'node:http';

export interface Seen {
  ids: string[];
  types: string[];
  data: Record<string, unknown>[];
  /** The last id that came, of an event or of a place without one. */
  last_id: string;
  /** How many heartbeats have come. */
  beats: number;
  /** True once the server has ended the stream. */
  has_ended: () => boolean;
  close: () => void;
}

/** Follows the stream by hand, as EventSource would. */
export async function follow(
  url: string,
  key: string,
  { headers = {}, query = '' }: { headers?: Record<string, string>; query?: string } = {},
): Promise<Seen> {
  let has_ended = false;
  const seen: Seen = {
    ids: [],
    last_id: '',
    types: [],
    data: [],
    beats: 0,
    has_ended: () => has_ended,
    close: () => request.destroy(),
  };
  const request = httpGet(`${url}/v1/events/stream${query}`, {
    agent: false,
    headers: { authorization: `Bearer ${key}`, ...headers },
  });
  request.on('error', () => undefined);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  expect(response.statusCode).toBe(200);
  response.on('error', () => undefined);
  response.on('end', () => {
    has_ended = true;
  });
  let text = '';
  response.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const fields = Object.fromEntries(
        text
          .slice(0, end)
          .split('\n')
          .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
      );
      if (text.startsWith(': still here')) seen.beats += 1;
      text = text.slice(end + 2);
      if (fields.id === undefined) continue;
      seen.last_id = fields.id;
      if (fields.data === undefined) continue;
      seen.ids.push(fields.id);
      seen.types.push(fields.event as string);
      seen.data.push(JSON.parse(fields.data as string));
    }
  });
  return seen;
}
