import { AppError, tooMany } from '../../domain/errors';

// A lane, or a place in one, may be free again after so long.
const PLACE_MS = 1_000;

/** The refusal (429) of one more of what a connection may have so many of. */
export function streamsExceeded(what: string, limit: number): AppError {
  return tooMany(
    'websocket_stream_limit_reached',
    `This connection has too many ${what}. Wait for an answer, or open another one.`,
    { limit, resets_at: new Date(Date.now() + PLACE_MS) },
  );
}

/** The refusal (429) of bytes beyond the share of `arriving_limit_bytes`. */
export function bytesExceeded(limit: number): AppError {
  return tooMany(
    'websocket_stream_limit_reached',
    'Frames that come or wait here have as many bytes as may be. Send fewer at one time.',
    { limit, resets_at: new Date(Date.now() + PLACE_MS) },
  );
}

/** The refusal (408) of a frame that begins and does not end. */
export function tooSlow(): AppError {
  return new AppError('invalid_request', 'A frame did not arrive in time. Connect again.', {
    status: 408,
  });
}
