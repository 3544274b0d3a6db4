import type { InjectedSinks, WorkerInterceptors } from '@temporalio/worker';
import { inSpan, type Tracing } from '../runtime/telemetry/spans';
import { traceIn } from '../temporal/traces';
import type { TraceSinks } from '../workflows/tracing';

/** The options by which a worker makes spans of activities and of traced workflows. */
export function tracedBy(tracing: Tracing | undefined): {
  sinks: InjectedSinks<TraceSinks>;
  interceptors: WorkerInterceptors;
} {
  return {
    sinks: { tracing: { ended: { fn: endedBy(tracing) } } },
    interceptors: tracing === undefined ? {} : { activity: [activitySpans(tracing)] },
  };
}

type Ended = InjectedSinks<TraceSinks>['tracing']['ended']['fn'];

/** A workflow has its span once it ends: until then its worker may change. */
function endedBy(tracing: Tracing | undefined): Ended {
  return ({ workflowType, workflowId }, { trace, span_id, began_at, ended_at, is_failed }) => {
    const { traceparent, identity_proof_method } = trace;
    const span = tracing?.begin(`workflow ${workflowType}`, {
      parent: traceparent,
      id: span_id,
      began_at: new Date(began_at),
      attributes: { identity_proof_method, workflow_id: workflowId, is_failed },
    });
    span?.end(new Date(ended_at));
  };
}

function activitySpans(tracing: Tracing): NonNullable<WorkerInterceptors['activity']>[number] {
  return ({ info }) => ({
    inbound: {
      execute(input, next) {
        const trace = traceIn(input.headers);
        const { activityType, attempt, workflowExecution } = info;
        const span = tracing.begin(`activity ${activityType}`, {
          parent: trace?.traceparent,
          attributes: {
            identity_proof_method: trace?.identity_proof_method,
            workflow_id: workflowExecution?.workflowId,
            attempt,
          },
        });
        return inSpan(span, () => next(input));
      },
    },
  });
}
