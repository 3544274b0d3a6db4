import { spokenBy, type TargetSettings } from '../../gateway/config/targets';

/** Where the sandbox stands in for the provider of a target: the path of its `base_url`. */
export function pathOf(row: TargetSettings): string {
  const { kind = 'own', shape, api_version } = row;
  if (kind === 'azure') {
    if (shape === 'anthropic') return '/azure/anthropic';
    return api_version === undefined ? '/azure/openai/v1' : '/azure/openai';
  }
  if (kind === 'bedrock') return shape === 'openai' ? '/bedrock/openai/v1' : '/bedrock';
  if (kind === 'vertex') return '/vertex/v1';
  if (kind === 'gemini') return shape === 'gemini' ? '/gemini/v1beta' : '/gemini/v1beta/openai';
  // Where the kind itself says that it is, or its row does.
  const url = row.base_url ?? spokenBy(row).base_url?.(row) ?? '';
  return `/plain/${kind}${new URL(url).pathname.replace(/\/$/, '')}`;
}

/** The region of all of Bedrock here, as one sandbox stands for all regions. */
export const REGION = 'eu-west-1';

/** A target that asks the sandbox at `origin` in place of its provider. */
export function standInFor<Row extends TargetSettings>(row: Row, origin: string) {
  // A resource is its host and nothing else, and another address stands there.
  const { resource: _, region, ...rest } = row;
  const place = region === undefined ? {} : { region: REGION };
  return { ...rest, ...place, base_url: `${origin}${pathOf(row)}` };
}
