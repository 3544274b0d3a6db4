import type { Call } from '../call/call';
import { type ClientRequest, modelOf, streamOf } from '../families/request';
import { checkKeys } from '../wire/members';
import { parseBody } from '../wire/parse';
import { readBody } from '../wire/read';

/** Reads and checks the body, once. */
export async function readRequest(call: Call): Promise<void> {
  const { ctx, snapshot, gateway, family } = call;
  if (family.read === undefined) call.request = await readJson(call);
  else {
    const { audio_limit_bytes } = snapshot.settings;
    call.request = await family.read({ req: ctx.req, audio_limit_bytes, sound: gateway.sound });
  }
}

async function readJson({ ctx, snapshot, family }: Call): Promise<ClientRequest> {
  const raw = ctx.given ?? (await readBody(ctx.req, snapshot.settings.body_limit_bytes));
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
