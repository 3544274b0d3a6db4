import { createStreamMeter } from '../gateway/exchange/meter';
import { chatReader } from '../gateway/families/chat';
import { chatTalk } from '../gateway/policy/chat-talk';
import { checkJson, createDlp, type Dlp } from '../gateway/policy/dlp';
import { createFirewall } from '../gateway/policy/firewall';
import { openStreamGuard } from '../gateway/policy/stream-guard';
import { watchCalls, watchText } from '../gateway/policy/watchers';
import type { Row } from './row';

const ROUNDS = 15;
const ANSWERS = 200;
const TERMS = 100;
// The factor by which a pack may multiply the metering of a stream, which every call pays.
const BAR = 5;

const words = 'The quick brown fox jumps over the lazy dog, and item 4711 was sold to nobody. ';
const said = words.repeat(26).slice(0, 2_048);
const chunks = (said.match(/.{1,5}/g) ?? []).map((content) => {
  const choices = [{ index: 0, delta: { content }, logprobs: null, finish_reason: null }];
  const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm' };
  return Buffer.from(`data: ${JSON.stringify({ ...head, choices })}\n\n`);
});
const json = JSON.stringify({
  choices: [{ index: 0, message: { role: 'assistant', content: said }, finish_reason: 'stop' }],
});

/**
 * The cost of a pack on an answer of 2 kB, whole and as a stream of 410 events, against the
 * metering that every answer has.
 */
export async function policyRow(): Promise<Row> {
  const dlp = createDlp({
    action: 'block',
    stages: ['input', 'output'],
    blocked_terms: Array.from({ length: TERMS }, (_, at) => `secret project number ${at}`),
    detect_patterns: ['email', 'credit_card', 'us_ssn', 'iban', 'api_key', 'private_key'],
  });
  const figures = { metered: [] as number[], guarded: [] as number[], whole: [] as number[] };
  for (let round = 0; round < ROUNDS; round += 1) {
    figures.metered.push(perAnswer(() => stream(undefined)));
    figures.guarded.push(perAnswer(() => stream(dlp)));
    figures.whole.push(await wholeAnswers(dlp));
  }
  const metered = Math.min(...figures.metered);
  const guarded = Math.min(...figures.guarded);
  const ratio = guarded / metered;
  return {
    measure: `policy on a 2 kB answer: ${TERMS} terms, six patterns and the tools, a stream of ${chunks.length} events`,
    figure: `${guarded.toFixed(0)} µs with the metering against ${metered.toFixed(0)} µs of it alone; ${Math.min(...figures.whole).toFixed(0)} µs where it is JSON`,
    ratio,
    bar: `at most ${BAR} x`,
    isMet: ratio <= BAR,
  };
}

function stream(dlp: Dlp | undefined): void {
  const firewall = createFirewall({ tools: { deny: ['delete_*'] } });
  const watchers = dlp && [watchCalls(firewall, chatTalk), watchText(dlp, chatTalk)];
  const guard = watchers && openStreamGuard(watchers, dlp);
  const meter = createStreamMeter(chatReader, { hides_usage: false, guard });
  let given = 0;
  for (const chunk of chunks) given += meter.push(chunk).length;
  given += meter.rest().length;
  const sent = chunks.reduce((sum, { length }) => sum + length, 0);
  if (given !== sent) throw new Error(`${given} of ${sent} bytes passed.`);
}

/** Microseconds an answer. */
function perAnswer(answer: () => void): number {
  const began = performance.now();
  for (let at = 0; at < ANSWERS; at += 1) answer();
  return ((performance.now() - began) * 1_000) / ANSWERS;
}

async function wholeAnswers(dlp: Dlp): Promise<number> {
  const began = performance.now();
  for (let at = 0; at < ANSWERS; at += 1) await checkJson(dlp, json, chatTalk.unread);
  return ((performance.now() - began) * 1_000) / ANSWERS;
}
