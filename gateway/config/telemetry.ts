import { z } from 'zod';
import { namedVariable } from '../../runtime/config';
import { notSet } from './variables';

/** The section `observability` of the gateway's configuration (specification: Events). */
export const observabilitySettings = z.strictObject({
  otlp: z
    .strictObject({
      /** Traces, over OTLP/HTTP as protobuf. */
      enabled: z.boolean().default(false),
      /** Names the environment variable that holds the receiver's address. */
      endpoint_env: z.string().min(1).optional(),
      export_rate_limit_metrics: z.boolean().default(false),
    })
    .prefault({}),
});

export type OtlpSettings = z.infer<typeof observabilitySettings>['otlp'];

const ENDPOINT_PATH = 'observability.otlp.endpoint_env';

interface Observed {
  observability: z.infer<typeof observabilitySettings>;
}

/** The problem of the section, with the path of the key. Looks at no variable. */
export function telemetryProblem({ observability: { otlp } }: Observed): string | undefined {
  if (!otlp.enabled || otlp.endpoint_env !== undefined) return undefined;
  return `${ENDPOINT_PATH}: is needed where enabled is true.`;
}

/** What is wrong with the variable that holds the receiver's address, on this machine. */
export function endpointValueProblem({ observability: { otlp } }: Observed): string | undefined {
  if (!otlp.enabled || otlp.endpoint_env === undefined) return undefined;
  const url = endpointOf(otlp);
  if (url === '') return notSet(ENDPOINT_PATH, otlp.endpoint_env);
  // Its value may hold a password, so it is not repeated.
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) {
    return `${ENDPOINT_PATH}: the environment variable ${otlp.endpoint_env} holds no http address.`;
  }
  return undefined;
}

/** The receiver's address; present, because settings without it do not load. */
export function endpointOf({ endpoint_env }: OtlpSettings): string {
  return (endpoint_env && namedVariable(endpoint_env)) || '';
}
