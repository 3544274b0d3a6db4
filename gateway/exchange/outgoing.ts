import type { Funded } from '../call/call';
import { renamed } from '../families/forms';
import type { ClientRequest } from '../families/request';
import type { Candidate } from '../upstreams/targets';
import type { Span, Spans } from '../wire/members';
import type { Body } from '../wire/values';

interface Edit {
  at: Span;
  text: string;
}

/**
 * What one candidate is sent: its own name of the model where the client wrote another or none, and
 * usage asked for in streams whose provider tells it only so. All else stays as it is, byte by
 * byte.
 */
export function sentTo(call: Pick<Funded, 'request' | 'family'>, candidate: Candidate): Buffer {
  const { request } = call;
  const { body, outgoing } = request;
  const translation = call.family.translations?.[candidate.target.shape];
  if (translation !== undefined) {
    return Buffer.from(JSON.stringify(translation.request(body, candidate.model)));
  }
  const asks = asksUsage(call, candidate);
  if (!asks && body.model === candidate.model) return outgoing.bytes;
  if (outgoing.delimiter !== undefined) return renamed(outgoing, candidate.model);
  const text = outgoing.bytes.toString('utf8');
  const edits: Edit[] = [];
  if (body.model !== candidate.model) {
    edits.push(member(text, outgoing.spans, 'model', JSON.stringify(candidate.model)));
  }
  if (asks) {
    const options = { ...(body.stream_options as Body | null), include_usage: true };
    edits.push(member(text, outgoing.spans, 'stream_options', JSON.stringify(options)));
  }
  return Buffer.from(edited(text, edits));
}

/**
 * True where the gateway asks for the usage that the client's stream would not tell. Some providers
 * refuse `stream_options`.
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

/** Puts a value in the place of the one that stands there, or a new member before all others. */
function member(text: string, spans: Spans, name: string, value: string): Edit {
  const at = spans.get(name);
  if (at !== undefined) return { at, text: value };
  const start = text.indexOf('{') + 1;
  return { at: { start, end: start }, text: `"${name}":${value},` };
}

function edited(text: string, edits: Edit[]): string {
  let result = '';
  let from = 0;
  for (const edit of edits.sort((a, b) => a.at.start - b.at.start)) {
    result += text.slice(from, edit.at.start) + edit.text;
    from = edit.at.end;
  }
  return result + text.slice(from);
}
