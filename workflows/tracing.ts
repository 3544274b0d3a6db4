import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import {
  AsyncLocalStorage,
  ContinueAsNew,
  proxySinks,
  type Sinks,
  type WorkflowInterceptorsFactory,
  workflowInfo,
} from '@temporalio/workflow';
import type { Trace } from '../domain/trace';

// Temporal's own interceptors for OpenTelemetry draw span ids from the workflow's random numbers or
// their own copy of the SDK; these carry a header from message to message, and nothing that a
// history records depends on them.

/** A traced workflow that has ended. */
interface EndedWorkflow {
  /** The trace of its start. */
  trace: Trace;
  /** The id that its activities know as their parent. */
  span_id: string;
  began_at: number;
  ended_at: number;
  is_failed: boolean;
}

export interface TraceSinks extends Sinks {
  tracing: { ended(workflow: EndedWorkflow): void };
}

const HEADER = 'trace';

export const interceptors: WorkflowInterceptorsFactory = () => {
  const sinks = proxySinks<TraceSinks>();
  // An update's steps belong to the trace of its sender.
  const ofUpdate = new AsyncLocalStorage<Trace>();
  let ofWorkflow: Trace | undefined;
  const within = <Input extends { headers: Headers }>(input: Input): Input => {
    const trace = ofUpdate.getStore() ?? ofWorkflow;
    if (trace === undefined) return input;
    const header = defaultPayloadConverter.toPayload(trace);
    return { ...input, headers: { ...input.headers, [HEADER]: header } };
  };
  return {
    inbound: [
      {
        async execute(input, next) {
          const trace = traceIn(input.headers);
          if (trace === undefined) return next(input);
          const span_id = spanId();
          ofWorkflow = { ...trace, traceparent: childOf(trace.traceparent, span_id) };
          const began_at = workflowInfo().startTime.getTime();
          const end = (is_failed: boolean) =>
            sinks.tracing.ended({ trace, span_id, began_at, ended_at: Date.now(), is_failed });
          try {
            const result = await next(input);
            end(false);
            return result;
          } catch (error) {
            end(!(error instanceof ContinueAsNew));
            throw error;
          }
        },
        handleUpdate(input, next) {
          const trace = traceIn(input.headers);
          return trace === undefined ? next(input) : ofUpdate.run(trace, () => next(input));
        },
      },
    ],
    outbound: [
      {
        scheduleActivity: (input, next) => next(within(input)),
        scheduleLocalActivity: (input, next) => next(within(input)),
      },
    ],
  };
};

function traceIn(headers: Headers): Trace | undefined {
  const header = headers[HEADER];
  return header && defaultPayloadConverter.fromPayload<Trace>(header);
}

/** The same in each replay: the random half of the run's id. */
function spanId(): string {
  return workflowInfo().runId.replaceAll('-', '').slice(-16);
}

function childOf(traceparent: string, span_id: string): string {
  return traceparent.replace(/^(00-[0-9a-f]{32})-[0-9a-f]{16}-/, `$1-${span_id}-`);
}
