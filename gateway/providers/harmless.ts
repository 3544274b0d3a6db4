/**
 * Why a member may be left out for a provider that refuses it: the answer is the same without it.
 * What changes an answer is refused by name (`lacks`), or changes who serves it (`refuses`).
 */
export const harmless: Readonly<Record<string, string>> = {
  model: 'stands in the path',
  stream: 'is said by the path',
  stream_options: 'asks for the usage, which comes unasked',
  user: 'says who asks',
  safety_identifier: 'says who asks',
  metadata: 'is noted beside the answer',
  store: 'asks to keep the answer, and nothing is kept there',
  prediction: 'makes the same answer come sooner',
  prompt_cache_key: 'makes the same answer come sooner',
  prompt_cache_retention: 'makes the same answer come sooner',
  cache_control: 'makes the same answer come sooner',
  'cache_control.scope': 'says who else may use a cache',
  'tools.eager_input_streaming': 'makes parts of the same answer come sooner',
  'messages.name': 'is a hint of who speaks, as unified chat treats it',
  'messages.reasoning_content': 'is what another model thought, which this one cannot take back',
  'messages.reasoning_details': 'is what another model thought, which this one cannot take back',
  service_tier: 'is served, held for and charged at the standard tier',
  serviceTier: 'is said by a header',
  speed: 'is `standard` in all requests that pass',
};
