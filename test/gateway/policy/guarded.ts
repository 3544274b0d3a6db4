import type { Begun, Limited } from '../../../gateway/call/call';
import { policiesSettings, policySettings } from '../../../gateway/config/policies';
import type { Settings } from '../../../gateway/config/settings';
import { createStreamMeter } from '../../../gateway/exchange/meter';
import type { Family } from '../../../gateway/families/family';
import {
  chat,
  completions,
  embeddings,
  messages,
  moderations,
  responses,
  speech,
} from '../../../gateway/families/table';
import { createPolicies } from '../../../gateway/policy/policies';
import {
  checkAnswer,
  checkInput,
  checkRefusal,
  guardStream,
} from '../../../gateway/stages/policies';
import { checkKeys } from '../../../gateway/wire/members';
import { parseBody } from '../../../gateway/wire/parse';

export const families = {
  chat,
  responses,
  messages,
  completions,
  embeddings,
  moderations,
  speech,
};
export type FamilyName = keyof typeof families;

/**
 * What a stream became: the bytes that its client gets, what stopped it, and what its provider said
 * it used.
 */
export type Guarded = ReturnType<ReturnType<typeof guardedBy>['stream']>;

/** Policies by themselves, with all that asks them in a gateway: no server, no ledger. */
export function guardedBy(policy: object, more: object = {}) {
  const settings = {
    pack: 'baseline',
    policies: policiesSettings.parse({ chain: Object.keys(policy), ...more }),
    policy: policySettings.parse(policy),
  };
  const snapshot = { policies: createPolicies(settings as unknown as Settings) };
  const emitted: unknown[] = [];
  const gateway = { events: { emit: (_: unknown, event: unknown) => emitted.push(event) } };
  const callOf = (family: Family, more: object = {}) =>
    ({ snapshot, gateway, family, ...more }) as unknown as Begun & Limited;
  return {
    emitted,
    stream(name: FamilyName, pieces: readonly (string | Buffer)[]) {
      const family = families[name];
      const guard = guardStream(callOf(family));
      const meter = createStreamMeter(family.reader, { hides_usage: false, guard });
      const given = pieces.map((piece) => meter.push(Buffer.from(piece)));
      const text = Buffer.concat([...given, meter.rest()]).toString();
      return { text, violation: guard?.violation(), measured: meter.measured() };
    },
    answer: (name: FamilyName, text: string) => checkAnswer(callOf(families[name]), text),
    refusal: (status: number, told: string) =>
      checkRefusal(callOf(chat) as never, status, Buffer.from(told)),
    /** Rejects with the refusal of a request that may not go on. */
    async request(name: FamilyName, text: string, headers: Record<string, string> = {}) {
      const body = parseBody(text);
      const outgoing = { bytes: Buffer.from(text), spans: checkKeys(text) };
      const ctx = { req: { headers } };
      await checkInput(callOf(families[name], { ctx, request: { body, outgoing } }));
    },
  };
}
