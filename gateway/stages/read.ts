import type { Identified, Read } from '../call/call';
import { shareOf } from '../config/shares';
import { type ClientRequest, modelOf, streamOf } from '../families/request';
import { ownerOf } from '../identity/identifier';
import { checkKeys } from '../wire/members';
import { parseBody } from '../wire/parse';
import { type Arrival, readBody } from '../wire/read';

/** Reads and checks the body, once. */
export async function readRequest(call: Identified): Promise<Read> {
  const { ctx, snapshot, gateway, family } = call;
  if (family.read === undefined) return Object.assign(call, { request: await readJson(call) });
  if (ctx.given !== undefined) throw new Error(`No frame can be read as ${family.name}.`);
  const { audio_limit_bytes } = snapshot.settings;
  const arriving = {
    req: ctx.req,
    arrival: arrivalOf(call),
    audio_limit_bytes,
    sound: gateway.sound,
  };
  return Object.assign(call, { request: await family.read(arriving) });
}

/** The arrival of a caller's body, within the caller's share of this gateway. */
export function arrivalOf({
  gateway,
  snapshot,
  identity,
}: Pick<Identified, 'gateway' | 'snapshot' | 'identity'>): Arrival {
  const { arriving_limit_bytes: bytes_max, identity: proof } = snapshot.settings;
  return gateway.arrivals.begin({
    owner: ownerOf(identity),
    org_id: identity.org_id,
    bytes_max,
    orgShare: (held_by_others) => shareOf({ all: bytes_max, held_by_others }, undefined, proof),
  });
}

async function readJson(call: Identified): Promise<ClientRequest> {
  const { ctx, snapshot, family } = call;
  const raw =
    ctx.given === undefined
      ? await readBody(ctx.req, snapshot.settings.body_limit_bytes, arrivalOf(call))
      : ctx.given;
  const text = raw.toString('utf8');
  const body = parseBody(text);
  const spans = checkKeys(text);
  family.check?.(body);
  return {
    raw,
    body,
    is_stream: family.may_stream && streamOf(body),
    model: modelOf(body, family.default_model),
    max_completion_tokens: family.max_completion_tokens(body),
    uncapped_choices: family.uncapped_choices?.(body),
    outgoing: { bytes: raw, spans },
  };
}
