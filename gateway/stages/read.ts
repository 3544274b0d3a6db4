import type { Identified, Read } from '../call/call';
import { type ClientRequest, modelOf, streamOf } from '../families/request';
import { checkKeys } from '../wire/members';
import { parseBody } from '../wire/parse';
import { readBody } from '../wire/read';

/** Reads and checks the body, once. */
export async function readRequest(call: Identified): Promise<Read> {
  const { ctx, snapshot, gateway, family } = call;
  if (family.read === undefined) return Object.assign(call, { request: await readJson(call) });
  if (ctx.given !== undefined) throw new Error(`No frame can be read as ${family.name}.`);
  const { audio_limit_bytes } = snapshot.settings;
  const arriving = { req: ctx.req, audio_limit_bytes, sound: gateway.sound };
  return Object.assign(call, { request: await family.read(arriving) });
}

async function readJson({ ctx, snapshot, family }: Identified): Promise<ClientRequest> {
  const raw =
    ctx.given === undefined
      ? await readBody(ctx.req, snapshot.settings.body_limit_bytes)
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
    outgoing: { bytes: raw, spans },
  };
}
