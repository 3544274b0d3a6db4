/** The meaning of the fields of providers' keys. */
export const providerKeyHelp: Record<string, string> = {
  provider_key_id: "Id of an organization's own key of a provider: GET /v1/provider-keys.",
  provider_key: 'The key, opened.',
  provider_keys: 'Keys of providers.',
  price_factor:
    'What prices are multiplied with: those of an organization all, by an own key all but per_request.',
  own_key_factor_min: 'The least price_factor of its own provider keys; those there keep theirs.',
  hint: 'The last characters of a key.',
  fingerprint: 'The same key has the same one; it tells nothing of the key.',
  rotated_at: 'When it got its present value; null: it has its first.',
};

export const providerKeyBodies: Record<string, object> = {
  'post /v1/provider-keys': { provider: 'openai', key: 'sk-as-openai-shows-it', own_keys: 'only' },
  'put /v1/provider-keys/:id': { own_keys: 'first' },
  'post /v1/provider-keys/:id/rotate': { key: 'sk-another-one-of-openai' },
  'post /v1/gateway/provider-keys': { org_id: 'org_...', provider: 'openai' },
};
