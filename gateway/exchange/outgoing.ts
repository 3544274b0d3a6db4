import type { Funded } from '../call/call';
import { renamed } from '../families/forms';
import type { ClientRequest } from '../families/request';
import type { Candidate } from '../upstreams/targets';
import { applyEdits, type Edit, memberEdit } from '../wire/edits';
import type { Body } from '../wire/values';

/**
 * The body for one candidate: it has the candidate's own name of the model if the client wrote
 * another or none, and asks for usage in streams whose provider gives it only if asked. All else
 * stays as it is, byte by byte.
 */
export function sentTo(call: Pick<Funded, 'request' | 'family'>, candidate: Candidate): Buffer {
  const { request } = call;
  const { body, outgoing } = request;
  const translation = call.family.translations?.[candidate.target.shape];
  if (translation !== undefined) return Buffer.from(translation.request(request, candidate.model));
  const asks = asksUsage(call, candidate);
  if (!asks && body.model === candidate.model) return outgoing.bytes;
  if (outgoing.form_model !== undefined) return renamed(outgoing, candidate.model);
  const text = outgoing.bytes.toString('utf8');
  const edits: Edit[] = [];
  if (body.model !== candidate.model) {
    edits.push(memberEdit(text, outgoing.spans, 'model', JSON.stringify(candidate.model)));
  }
  if (asks) {
    const options = { ...(body.stream_options as Body | null), include_usage: true };
    edits.push(memberEdit(text, outgoing.spans, 'stream_options', JSON.stringify(options)));
  }
  return Buffer.from(applyEdits(text, edits));
}

/**
 * True if the gateway asks for usage that the client's stream would not give. Some providers refuse
 * `stream_options`.
 */
export function asksUsage(
  { request, family }: Pick<Funded, 'request' | 'family'>,
  { target }: Candidate,
): boolean {
  return (
    request.is_stream && family.usage_is_asked && target.stream_usage && !isAsked(request.body)
  );
}

function isAsked({ stream_options }: ClientRequest['body']): boolean {
  return (stream_options as Body | null | undefined)?.include_usage === true;
}
