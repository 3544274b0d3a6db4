import { Pool } from 'undici';
import { AppError } from '../../domain/errors';
import type { Answer } from './api-client';

/** Longer than a call is held for money, so that a wait is ended by the gateway and not here. */
const ANSWER_MS = 660_000;

/** The gateway behind the chat; undefined without CONSOLE_GATEWAY_URL. */
export type GatewayClient = ReturnType<typeof createGatewayClient>;

/** @param gateway_url an origin: CONSOLE_GATEWAY_URL. */
export function createGatewayClient(gateway_url: string) {
  const pool = new Pool(new URL(gateway_url).origin, {
    // The gateway bounds what a key may have under way; one who waits for money holds nobody up.
    connections: null,
    headersTimeout: ANSWER_MS,
    bodyTimeout: ANSWER_MS,
  });
  return {
    async send(question: {
      method: 'GET' | 'POST';
      path: string;
      headers: Record<string, string>;
      body?: string;
      signal?: AbortSignal;
    }): Promise<Answer> {
      try {
        const { statusCode, headers, body } = await pool.request(question);
        return { status: statusCode, headers, body };
      } catch (error) {
        if (question.signal?.aborted) throw error;
        throw new AppError('unavailable', 'The gateway cannot be reached at present.', {
          retry_after: 2,
        });
      }
    },
    destroy: () => pool.destroy(),
  };
}
