import { AppError, isAppError } from '../../domain/errors';
import type { Begun, Identified, Limited, Routed } from '../call/call';
import type { Kind } from '../config/policies';
import type { Family } from '../families/family';
import { checkJson, checkText, type Dlp, type Filtered } from '../policy/dlp';
import type { Firewall } from '../policy/firewall';
import { withoutRepeats } from '../policy/literals';
import { offeredTools } from '../policy/offered-tools';
import type { Policies } from '../policy/policies';
import { openStreamGuard, type StreamGuard, type Violation } from '../policy/stream-guard';
import type { Talk } from '../policy/talk';
import { watchCalls, watchText } from '../policy/watchers';
import type { Failure } from '../upstreams/failures';
import { checkKeys } from '../wire/members';
import { type Body, objectIn } from '../wire/values';
import { estimate } from './estimate';

/** How policies read a call; undefined if they do not run over its route. */
export function talkOf({ snapshot, family }: Begun): Talk | undefined {
  return isCovered(snapshot.policies, family) ? family.talk : undefined;
}

/** True if the chain runs over a family. */
export function isCovered({ routes }: Policies, { policy_route }: Family): boolean {
  return policy_route !== undefined && routes.has(policy_route);
}

/** The stage that refuses a call over a route that no policy looks at, if policies are to. */
export function requireCover(call: Identified): void {
  const { snapshot, family, ctx } = call;
  if (!snapshot.policies.refuses_uncovered || isCovered(snapshot.policies, family)) return;
  emitBlocked(call, { policy: 'policies', rule: 'uncovered' }, 'input');
  throw new AppError(
    'route_not_covered',
    `The policies of this gateway do not look at ${ctx.path}, so it takes no calls there.`,
  );
}

/**
 * The stage that runs the chain over a request; what it redacts is counted again, for the hold is
 * of what goes upstream.
 */
export async function checkInput(call: Limited): Promise<void> {
  const { snapshot } = call;
  if (talkOf(call) === undefined) return;
  for (const kind of snapshot.policies.chain) {
    const rule = await input[kind](call, snapshot.policies);
    if (rule !== undefined) throw blocked(call, { policy: kind, rule }, 'input');
  }
}

type InputCheck = (
  call: Limited,
  policies: Policies,
) => string | undefined | Promise<string | undefined>;

const input: Record<Kind, InputCheck> = {
  rbac: ({ ctx }, { rbac }) => rbac?.broken(ctx.req.headers),
  'agent-firewall': (call, { firewall, session_limits }) => {
    if (session_limits !== undefined && call.session_id === undefined) throw sessionMissing();
    if (firewall === undefined) return undefined;
    return forbidden(firewall, offeredTools(call.request.outgoing.bytes.toString('utf8')));
  },
  'dlp-filter': (call, { dlp }) =>
    dlp?.stages.includes('input') ? filtered(call, dlp) : undefined,
};

async function filtered(call: Limited, dlp: Dlp): Promise<string | undefined> {
  const { request } = call;
  if (talkOf(call)?.hides?.(request.body)) return 'tokens';
  const given = request.outgoing.bytes.toString('utf8');
  const { rule, text: checked } = await checkJson(dlp, given);
  if (rule !== undefined) return rule;
  const body = checked === given ? request.body : (JSON.parse(checked) as Body);
  const text = withoutRepeats(checked, body);
  if (text !== checked) {
    // What is left of two members is looked at by itself: the other may have stood in the middle of
    // a phrase.
    const left = await checkJson(dlp, text);
    if (left.rule !== undefined || left.text !== text) return left.rule ?? 'repeated_members';
  }
  if (text === given) return undefined;
  request.body = body;
  request.outgoing = { bytes: Buffer.from(text), spans: checkKeys(text) };
  await estimate(call);
  return undefined;
}

/** Opens the guard between a stream and its client; undefined if no policy looks at answers. */
export function guardStream(call: Begun): StreamGuard | undefined {
  const { output, dlp, firewall } = call.snapshot.policies;
  const talk = talkOf(call);
  if (talk === undefined || talk.is_silent || output.length === 0) return undefined;
  const watchers = output.map((kind) =>
    kind === 'dlp-filter' ? watchText(dlp as Dlp, talk) : watchCalls(firewall as Firewall, talk),
  );
  return openStreamGuard(watchers, output.includes('dlp-filter') ? dlp : undefined);
}

/** True if answers are read whole before they are given on. */
export function isGuarded(call: Begun): boolean {
  const talk = talkOf(call);
  return talk !== undefined && !talk.is_silent && call.snapshot.policies.output.length > 0;
}

/** What was found in a whole answer, or what of it goes to the client. */
export type Checked = { violation: Violation; text?: never } | { violation?: never; text: string };

/** Runs the chain over a whole answer. */
export async function checkAnswer({ snapshot, family }: Begun, given: string): Promise<Checked> {
  const { output, dlp, firewall } = snapshot.policies;
  const talk = family.talk as Talk;
  const answer = objectIn(given);
  let text = answer === undefined ? given : withoutRepeats(given, answer);
  for (const policy of output) {
    let verdict: Filtered = { text };
    if (policy === 'agent-firewall') {
      const rule = forbidden(firewall as Firewall, answer && talk.callsOf(answer));
      if (rule !== undefined) verdict = { rule };
    } else if (answer === undefined) verdict = checkText(dlp as Dlp, text);
    else verdict = await checkJson(dlp as Dlp, text, talk.unread);
    if (verdict.rule !== undefined) return { violation: { policy, rule: verdict.rule } };
    text = verdict.text;
  }
  return { text };
}

/**
 * The body of an upstream's refusal, which may repeat anything. Throws our own refusal if a policy
 * finds something in it.
 */
export async function checkRefusal(call: Routed, status: number, body: Buffer): Promise<Buffer> {
  if (talkOf(call) === undefined || call.snapshot.policies.output.length === 0) return body;
  const given = body.toString('utf8');
  const { violation, text } = await checkAnswer(call, given);
  if (violation === undefined) return text === given ? body : Buffer.from(text);
  const { message } = blocked(call, violation, 'output');
  throw new AppError('upstream_failed', `The provider answered ${status}. ${message}`, { status });
}

/**
 * A failure as a client may be told it: its words redacted, or our own if a policy finds something
 * in them; without a code, type or param of which the same is true.
 */
export function checkFailure(call: Routed, failure: Failure): Failure {
  const { output, dlp } = call.snapshot.policies;
  if (dlp === undefined || talkOf(call) === undefined || !output.includes('dlp-filter'))
    return failure;
  const wordOf = (word: string | null) =>
    word === null || checkText(dlp, word).text === word ? word : null;
  const { rule, text } = checkText(dlp, failure.message);
  const message =
    rule === undefined
      ? text
      : `The provider failed. ${blocked(call, { policy: 'dlp-filter', rule }, 'output').message}`;
  const { code, type, param } = failure;
  return { ...failure, message, code: wordOf(code), type: wordOf(type), param: wordOf(param) };
}

function forbidden(firewall: Firewall, names: readonly string[] = []): string | undefined {
  for (const name of names) {
    const rule = firewall.forbids(name);
    if (rule !== undefined) return rule;
  }
  return undefined;
}

const words = {
  input: 'This request was blocked by',
  output: 'The answer to this request was blocked by',
};

/**
 * Emits that a policy blocked, and makes the refusal of it. Neither holds the words that broke the
 * rule.
 */
export function blocked(
  call: Identified & { model?: string },
  { policy, rule }: Violation,
  stage: 'input' | 'output',
): AppError {
  const { pack } = call.snapshot.policies;
  emitBlocked(call, { policy, rule }, stage);
  const of_pack = pack === undefined ? '' : ` of the pack "${pack}"`;
  return new AppError(
    `${stage}_blocked`,
    `${words[stage]} the policy ${policy}${of_pack}, rule ${rule}.`,
    { extra: { type: 'policy_violation', policy } },
  );
}

function emitBlocked(
  call: Identified & { model?: string },
  { policy, rule }: Violation,
  stage: 'input' | 'output',
): void {
  const { pack } = call.snapshot.policies;
  call.gateway.events.emit(call, {
    type: 'request.blocked',
    action: 'blocked',
    payload: {
      policy,
      rule,
      stage,
      pack: pack ?? null,
      family: call.family.name,
      model: call.model,
    },
  });
}

/**
 * What a reserve throws: if the limits of a session refused it, which the ledger counts, it is a
 * policy that blocks.
 */
export function sessionRefusal(call: Limited, error: unknown): unknown {
  if (!isSpentSession(error)) return error;
  const { code, message, details } = error;
  blocked(call, { policy: 'agent-firewall', rule: 'session_limits' }, 'input');
  const extra = { ...details.extra, type: 'policy_violation', policy: 'agent-firewall' };
  return new AppError(code, message, { ...details, extra });
}

function isSpentSession(error: unknown): error is AppError {
  return isAppError(error) && error.code === 'session_limit_exceeded';
}

function sessionMissing(): AppError {
  return new AppError(
    'invalid_field',
    'The policy agent-firewall limits sessions: name one in "session_id" or x-session-id.',
    { param: 'session_id' },
  );
}
