import { randomUUID } from 'node:crypto';
import { printExact } from '../../wire/exact';
import { type Body, countOf, isObject, listOf, stringOf } from '../../wire/values';
import type { Told } from '../reader';
import type { AnswerHead, Translation, Translator } from '../translation';
import { now, readObject, tellUsage, toUsage, translateWhole } from './completion';
import { foreign, translateEvents } from './events';
import { toGemini } from './gemini-request';
import { geminiUsage, type Headers, largest, servedTier } from './gemini-usage';

/** Chat completions spoken to Gemini on its own wire. */
export const chatOverGemini: Translation = {
  upstream_path: '/models',
  request: (request, model) => printExact(toGemini(request, model)),
  open: (is_stream, about) => (is_stream ? streamed(about) : whole(about.headers)),
};

const finish_reasons = new Map<unknown, string>([
  ['STOP', 'stop'],
  ['MAX_TOKENS', 'length'],
  ['CONTINUATION', 'length'],
]);
const filtered = /SAFETY|RECITATION|BLOCKLIST|PROHIBITED|SPII|LANGUAGE|MODEL_ARMOR/;

/** What it is called on the chat's wire, and its own word if that says more. */
function finishOf({ finishReason, is_blocked }: Body, has_calls: boolean): Body {
  const reason = stringOf(finishReason) || 'STOP';
  const known = finish_reasons.get(reason);
  if (known === 'stop' && has_calls) return { finish_reason: 'tool_calls' };
  if (known !== undefined && reason !== 'CONTINUATION') return { finish_reason: known };
  const is_filtered = is_blocked === true || filtered.test(reason);
  const finish_reason = known ?? (is_filtered ? 'content_filter' : 'stop');
  return { finish_reason, native_finish_reason: reason };
}

/** What one part of a candidate says, in the words of a chat's message. */
function said(part: Body): { content?: string; thought?: string; picture?: Body; call?: Body } {
  const { text, functionCall, inlineData, thought } = part;
  if (isObject(functionCall)) return { call: toolCall(functionCall, part.thoughtSignature) };
  // Pictures that it drew while it thought are none of its answer.
  if (thought === true) return { thought: stringOf(text) };
  if (isObject(inlineData)) {
    const url = `data:${stringOf(inlineData.mimeType)};base64,${stringOf(inlineData.data)}`;
    return { picture: { type: 'image_url', image_url: { url } } };
  }
  return { content: stringOf(text) };
}

function toolCall({ id, name, args }: Body, signature: unknown): Body {
  const call = {
    id: stringOf(id) || `call_${randomUUID().replaceAll('-', '')}`,
    type: 'function',
    function: { name, arguments: isObject(args) ? printExact(args) : '{}' },
  };
  if (typeof signature !== 'string') return call;
  // As Google's own wire of compatibility gives it, and takes it back.
  return { ...call, extra_content: { google: { thought_signature: signature } } };
}

function partsOf({ content }: Body): Body[] {
  return isObject(content) ? listOf(content.parts) : [];
}

/** The choices of an answer; one that is empty for a prompt that was blocked. */
function candidatesOf({ candidates, promptFeedback }: Body): Body[] {
  const all = listOf(candidates);
  const { blockReason } = isObject(promptFeedback) ? promptFeedback : {};
  if (all.length > 0 || blockReason == null) return all;
  return [{ finishReason: blockReason, is_blocked: true }];
}

// The choice of an answer without any: its tokens are charged all the same.
const no_candidates = { finishReason: 'NO_CANDIDATES' };

function whole(headers: Headers): Translator {
  let usage: Told | undefined;
  const translate = (bytes: Buffer) => {
    const answer = readObject(bytes.toString('utf8'));
    if (answer === undefined || answer.error != null) return bytes;
    const told = geminiUsage(answer.usageMetadata);
    const candidates = candidatesOf(answer);
    if (candidates.length === 0 && told === undefined) return bytes;
    usage = told;
    const given = candidates.length > 0 ? candidates : [no_candidates];
    return Buffer.from(printExact(toCompletion(answer, { candidates: given, usage, headers })));
  };
  return translateWhole(translate, (measured) => tellUsage(measured, usage, false));
}

function toCompletion(
  answer: Body,
  given: { candidates: Body[]; usage: Told | undefined; headers: Headers },
): Body {
  const { usage, headers } = given;
  const choices = given.candidates.map((candidate, at) => {
    const parts = partsOf(candidate).map(said);
    const tool_calls = parts.flatMap(({ call }) => call ?? []);
    const images = parts.flatMap(({ picture }) => picture ?? []);
    const content = parts.map((part) => part.content ?? '').join('');
    const thoughts = parts.map(({ thought }) => thought ?? '').join('');
    const message = {
      role: 'assistant',
      content: content === '' && tool_calls.length > 0 ? null : content,
      refusal: null,
      ...(thoughts === '' ? {} : { reasoning_content: thoughts }),
      ...(images.length > 0 ? { images } : {}),
      ...(tool_calls.length > 0 ? { tool_calls } : {}),
    };
    const end = finishOf(candidate, tool_calls.length > 0);
    const index = candidate.index == null ? at : countOf(candidate.index);
    return { index, message, logprobs: null, ...end };
  });
  const service_tier = servedTier(headers, answer.usageMetadata);
  return {
    id: stringOf(answer.responseId) || `chatcmpl-${randomUUID()}`,
    object: 'chat.completion',
    created: now(),
    model: answer.modelVersion,
    choices,
    ...(usage === undefined ? {} : { usage: toUsage(usage) }),
    ...(service_tier === undefined ? {} : { service_tier }),
  };
}

/** One candidate of a stream so far. */
interface Choice {
  calls: number;
  has_ended: boolean;
}

class Chunks {
  /** The usage was told with the end of the last choice, or behind it. */
  has_all_usage = false;
  private readonly headers: Headers;
  private readonly asked: number;
  private readonly created = now();
  private readonly choices = new Map<number, Choice>();
  private id = '';
  private model: unknown;
  private tier: string | undefined;
  private meta: Body | undefined;
  private has_failed = false;

  constructor({ headers, choices = 1 }: AnswerHead) {
    this.headers = headers;
    this.asked = choices;
  }

  /** What all events so far have told. */
  usage(): Told | undefined {
    return geminiUsage(this.meta);
  }

  /** True once every choice that has begun has come to its end. */
  private hasEnded(): boolean {
    return this.choices.size > 0 && [...this.choices.values()].every((one) => one.has_ended);
  }

  /** The `data` texts of one event. */
  translate(event: Body, name?: string): string[] {
    if (event.error != null || name === 'error') {
      this.has_failed = true;
      return [printExact({ error: event.error ?? event })];
    }
    this.id ||= stringOf(event.responseId) || `chatcmpl-${randomUUID()}`;
    this.model ??= event.modelVersion;
    this.tier = servedTier(this.headers, event.usageMetadata) ?? this.tier;
    this.meta = largest(this.meta, event.usageMetadata);
    const candidates = candidatesOf(event);
    if (candidates.length === 0 && event.usageMetadata == null) {
      const failure = foreign(event);
      this.has_failed ||= failure.length > 0;
      return failure;
    }
    const texts = candidates.flatMap((candidate) => this.candidate(candidate));
    if (event.usageMetadata != null) this.has_all_usage = this.hasEnded();
    return texts;
  }

  end(is_broken: boolean): string[] {
    // Nothing tells that a stream is over but its own end, if all that was asked for has not come.
    const is_whole = this.has_all_usage && this.choices.size >= this.asked;
    if (is_broken && !is_whole) return [];
    const usage = this.usage();
    const is_empty = this.choices.size === 0 && usage !== undefined && !this.has_failed;
    const rest = is_empty ? this.candidate(no_candidates) : [];
    if (!this.hasEnded()) return [];
    this.has_all_usage ||= is_empty;
    const last = usage && this.text({ choices: [], usage: toUsage(usage) });
    return [...rest, ...(last ? [last] : []), '[DONE]'];
  }

  private candidate(candidate: Body): string[] {
    const index = countOf(candidate.index);
    const known = this.choices.get(index);
    const choice = known ?? { calls: 0, has_ended: false };
    this.choices.set(index, choice);
    const first =
      known === undefined ? [this.chunk(index, { role: 'assistant', content: '' })] : [];
    const deltas = partsOf(candidate).flatMap((part) => this.deltas(part, choice));
    if (candidate.finishReason == null || choice.has_ended)
      return [...first, ...deltas.map((delta) => this.chunk(index, delta))];
    choice.has_ended = true;
    const end = this.chunk(index, {}, finishOf(candidate, choice.calls > 0));
    return [...first, ...deltas.map((delta) => this.chunk(index, delta)), end];
  }

  private deltas(part: Body, choice: Choice): Body[] {
    const { content, thought, picture, call } = said(part);
    if (call !== undefined) {
      choice.calls += 1;
      return [{ tool_calls: [{ index: choice.calls - 1, ...call }] }];
    }
    if (picture !== undefined) return [{ images: [picture] }];
    if (thought) return [{ reasoning_content: thought }];
    return content ? [{ content }] : [];
  }

  private chunk(index: number, delta: Body, end: Body = { finish_reason: null }): string {
    return this.text({ choices: [{ index, delta, logprobs: null, ...end }], usage: null });
  }

  private text(more: Body): string {
    const { id, created, model, tier } = this;
    const head = { id, object: 'chat.completion.chunk', created, model };
    return printExact({ ...head, ...(tier && { service_tier: tier }), ...more });
  }
}

function streamed(about: AnswerHead): Translator {
  const chunks = new Chunks(about);
  return translateEvents(
    {
      translate: (event, { event: name }) => chunks.translate(event, name),
      end: (is_broken) => chunks.end(is_broken),
      tell: (measured) => tellUsage(measured, chunks.usage(), !chunks.has_all_usage),
    },
    readObject,
  );
}
