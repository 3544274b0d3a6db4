type Told = Readonly<Record<string, unknown>>;

/**
 * The tiers of service by what Vertex calls its traffic (GenerateContentResponse.TrafficType).
 * Throughput that was bought ahead is the ordinary service: no other tier has served.
 */
export const traffic_tiers: ReadonlyMap<unknown, string> = new Map([
  ['ON_DEMAND', 'default'],
  ['ON_DEMAND_PRIORITY', 'priority'],
  ['ON_DEMAND_FLEX', 'flex'],
  ['PROVISIONED_THROUGHPUT', 'default'],
]);

/** The tier that a usage object of Vertex names on OpenAI's wire; undefined if it names none. */
export function tierOfTraffic({ extra_properties }: Told): string | undefined {
  const { google } = (extra_properties ?? {}) as { google?: { traffic_type?: unknown } | null };
  return traffic_tiers.get(google?.traffic_type);
}
