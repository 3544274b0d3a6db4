import { Client } from '@temporalio/client';
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import type { Trace } from '../domain/trace';

/** The header of Temporal's messages that carries a trace. */
const TRACE_HEADER = 'trace';

/**
 * A client over the same connection whose messages, and the workflows that they start, are part of
 * a trace.
 */
export function inTrace(client: Client, trace: Trace): Client {
  const header = defaultPayloadConverter.toPayload(trace);
  const within = (headers: Headers): Headers => ({ ...headers, [TRACE_HEADER]: header });
  return new Client({
    connection: client.connection,
    namespace: client.options.namespace,
    interceptors: {
      workflow: [
        {
          start: (input, next) => next({ ...input, headers: within(input.headers) }),
          startUpdateWithStart: (input, next) =>
            next({
              ...input,
              workflowStartHeaders: within(input.workflowStartHeaders),
              updateHeaders: within(input.updateHeaders),
            }),
        },
      ],
    },
  });
}

/** The trace that the headers of a message carry. */
export function traceIn(headers: Headers): Trace | undefined {
  const header = headers[TRACE_HEADER];
  return header && defaultPayloadConverter.fromPayload<Trace>(header);
}
