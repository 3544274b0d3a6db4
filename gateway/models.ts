import type { Context } from 'koa';
import type { Figures } from '../domain/ledger/price-lists';
import { decimalText, shifted, times } from '../domain/prices/decimals';
import type { Gateway } from './call/call';
import type { ControlPlane, Price } from './control-plane/client';
import { dearestOf, type Share } from './control-plane/prices';
import type { Shape } from './providers/kind';
import { notAllowed, unknownModel } from './stages/choose';
import type { Listed } from './upstreams/listing';

// Until a provider says otherwise; both official SDKs want the member.
const CREATED = 1_735_689_600;

/** GET /v1/models: exactly what the key may call. Its validity is asked every time. */
export async function listModels(ctx: Context, gateway: Gateway, shapes: ReadonlySet<Shape>) {
  const models = await callable(ctx, gateway, shapes);
  if (!wantsAnthropic(ctx)) {
    ctx.body = { object: 'list', data: models.map(openaiModel) };
    return;
  }
  const first_id = models[0]?.model ?? null;
  const last_id = models.at(-1)?.model ?? null;
  ctx.body = { data: models.map(anthropicModel), has_more: false, first_id, last_id };
}

/** GET /v1/models/:model_id. */
export async function showModel(
  ctx: Context,
  gateway: Gateway,
  shapes: ReadonlySet<Shape>,
  id: string,
) {
  const models = await callable(ctx, gateway, shapes);
  const found = models.find(({ model }) => model === id);
  if (found === undefined) throw isServed(gateway, id, shapes) ? notAllowed(id) : unknownModel(id);
  ctx.body = wantsAnthropic(ctx) ? anthropicModel(found) : openaiModel(found);
}

function isServed({ snapshot }: Gateway, id: string, shapes: ReadonlySet<Shape>): boolean {
  return snapshot.providers.models(shapes, null).some(({ model }) => model === id);
}

/** A model that the caller may use, with the dearest price that a call of it may have. */
interface Shown extends Listed {
  price: Price | undefined;
  /** What the caller's organization pays of it; undefined if nobody can say so now. */
  share: Share | undefined;
}

async function callable(
  ctx: Context,
  { snapshot, control_plane }: Gateway,
  shapes: ReadonlySet<Shape>,
): Promise<Shown[]> {
  const { allowed_models, org_id } = await snapshot.identifier.confirm(ctx.req);
  const prices = (await control_plane.prices()) ?? [];
  const shares = await sharesOf(control_plane, org_id);
  return snapshot.providers.models(shapes, allowed_models).map((one) => {
    const paid = dearestOf(prices, one.priced, shares ?? wholeList);
    return { ...one, price: paid?.price, share: shares && paid };
  });
}

const wholeList = () => [{ factor: '1', request_factor: '1' }];

/**
 * By which factors an organization pays a provider's prices: its own key's, and its own one if the
 * platform's key may serve. Without an answer none is known: a wrong price would be believed.
 */
async function sharesOf(control_plane: ControlPlane, org_id: string) {
  try {
    const { price_factor = '1', own_keys = [] } = await control_plane.funds({ org_id });
    const platform: Share = { factor: price_factor, request_factor: price_factor };
    return (provider: string): Share[] => {
      const own = own_keys.find((key) => key.provider === provider);
      if (own === undefined) return [platform];
      const by_key = { factor: own.price_factor, request_factor: '1' };
      return own.own_keys === 'only' ? [by_key] : [by_key, platform];
    };
  } catch {
    return undefined;
  }
}

// The Anthropic SDK asks the same path and expects its own shape.
function wantsAnthropic(ctx: Context): boolean {
  return ctx.get('anthropic-version') !== '';
}

function openaiModel({ model, provider, price, share }: Shown) {
  return {
    ...{ id: model, object: 'model', created: CREATED, owned_by: provider },
    ...(price === undefined ? {} : known(price, share)),
  };
}

function anthropicModel({ model, price, share }: Shown) {
  const created_at = new Date(CREATED * 1_000).toISOString();
  const { context_length, top_provider, ...rest } = price === undefined ? {} : known(price, share);
  return {
    ...{ type: 'model', id: model, display_name: model, created_at },
    ...present({
      max_input_tokens: context_length,
      max_tokens: top_provider?.max_completion_tokens,
    }),
    ...rest,
  };
}

interface Known {
  context_length?: number | undefined;
  top_provider?: { max_completion_tokens: number } | undefined;
  architecture?: object | undefined;
  supported_parameters?: readonly string[] | undefined;
  pricing?: object | undefined;
  svc?: object | undefined;
}

/**
 * What is known of a model, under the names that OpenRouter gave these members and that clients
 * read; both official SDKs ignore them. Prices are USD a token, or a call, as decimal text, times
 * the factor of who pays.
 */
function known({ metadata, max_output_tokens, ...price }: Price, share: Share | undefined): Known {
  const { context_length, input_modalities, output_modalities } = metadata ?? {};
  const { supported_parameters, deprecation_date, successor } = metadata ?? {};
  const most = max_output_tokens ?? metadata?.max_output_tokens;
  return present({
    context_length,
    top_provider: most == null ? undefined : { max_completion_tokens: most },
    architecture: orNothing({ input_modalities, output_modalities }),
    supported_parameters,
    pricing: share === undefined ? undefined : pricingOf(price, share),
    svc: orNothing({ deprecation_date, successor }),
  });
}

function pricingOf(
  price: Omit<Price, 'metadata' | 'max_output_tokens'>,
  { factor, request_factor }: Share,
): object {
  const each = (amount: number | null) => charged(amount, factor);
  // Of what is charged by the minute, by sound or by pictures alone, text of 0 says nothing.
  const text = (amount: number) => (amount === 0 && hasOther(price) ? null : amount);
  return present({
    prompt: perToken(each(text(price.input_per_1m))),
    completion: perToken(each(text(price.output_per_1m))),
    audio: perToken(each(price.audio_input_per_1m)),
    audio_output: perToken(each(price.audio_output_per_1m)),
    image: perToken(each(price.image_input_per_1m)),
    image_output: perToken(each(price.image_output_per_1m)),
    minute: each(price.per_minute),
    character: perToken(each(price.per_1m_characters)),
    page: each(price.per_page),
    input_cache_read: perToken(each(price.cached_input_per_1m)),
    input_cache_write: perToken(each(price.cache_write_per_1m)),
    request: charged(price.per_request, request_factor),
    web_search: each(price.per_web_search ?? price.per_tool_call),
  });
}

function hasOther(price: Figures): boolean {
  const of_sides = [
    ...[price.audio_input_per_1m, price.audio_output_per_1m, price.image_input_per_1m],
    ...[price.image_output_per_1m, price.per_minute, price.per_1m_characters, price.per_page],
  ];
  return of_sides.some((amount) => amount !== null && amount > 0);
}

const PER_MILLION = 6;

function charged(listed: number | null, factor: string): string | undefined {
  const amount = decimalText(listed);
  return amount === undefined ? undefined : times(amount, factor);
}

function perToken(per_million: string | undefined): string | undefined {
  return per_million === undefined ? undefined : shifted(per_million, -PER_MILLION);
}

/** The members that have a value. */
function present<Members extends object>(members: Members): Partial<Members> {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Partial<Members>;
}

function orNothing(members: object): object | undefined {
  const found = present(members);
  return Object.keys(found).length === 0 ? undefined : found;
}
