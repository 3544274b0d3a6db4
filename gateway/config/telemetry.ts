import { z } from 'zod';
import { namedVariable } from '../../runtime/config';

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

/** The problem of the named address, with the path of the key. */
export function telemetryProblem({
  observability: { otlp },
}: {
  observability: z.infer<typeof observabilitySettings>;
}): string | undefined {
  if (!otlp.enabled) return undefined;
  const path = 'observability.otlp.endpoint_env';
  if (otlp.endpoint_env === undefined) return `${path}: is needed where enabled is true.`;
  const url = endpointOf(otlp);
  if (url === '') return `${path}: the environment variable ${otlp.endpoint_env} is not set.`;
  // Its value may hold a password, so it is not repeated.
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) {
    return `${path}: the environment variable ${otlp.endpoint_env} holds no http address.`;
  }
  return undefined;
}

/** The receiver's address; present, because settings without it do not load. */
export function endpointOf({ endpoint_env }: OtlpSettings): string {
  return (endpoint_env && namedVariable(endpoint_env)) || '';
}
