import type { AppError } from '../../domain/errors';
import { isAppError } from '../../domain/errors';
import type { NamedId, NamedIds } from '../../domain/ledger/calls';
import { unknownId } from '../../domain/ledger/refusals';
import { isKept } from '../../domain/texts';
import type { Begun, Identified, Limited, Routed } from '../call/call';
import type { IdOwner } from '../call/stored-ids';
import type { Reader } from '../families/reader';
import { type NamedMember, namedIds } from '../families/stored';
import { withCostTold } from '../families/told-cost';
import type { Wire } from '../providers/kind';
import type { Candidate } from '../upstreams/target';
import { type Body, isObject } from '../wire/values';
import { serveBy } from './choose';

const ID_CHARACTERS_MAX = 1_000;
const NAMED_MAX = 1_000;
// Of all that a reserve asks about, as JSON: a control plane reads a body of 1 MiB.
const ASKED_BYTES_MAX = 262_144;
const MADE_MAX = 1_000;

/**
 * Finds the stored things that a request names and leaves the call to the providers that may keep
 * them. Gives those that the reserve is to ask about: what an answer of this gateway has made is
 * known here. Throws 404 for one that cannot be the caller's.
 */
export function nameStored(call: Limited): NamedIds | undefined {
  const { snapshot, family, gateway, request } = call;
  if (family.keeps === undefined) return undefined;
  const named = namedIds(request.outgoing.bytes);
  call.named_ids = named;
  if (named.length === 0 || snapshot.settings.stored_ids === 'pass') return undefined;
  const owner = ownerOfIds(call);
  let providers = [...new Set(call.candidates.map(({ target }) => target.provider))];
  const asked: NamedId[] = [];
  let bytes = 0;
  for (const { kind, id, member } of named) {
    if (!isPossible(id) || named.length > NAMED_MAX) throw unknownId({ kind, id }, member);
    const keeper = gateway.stored_ids.keeperOf(owner, { kind, id });
    if (keeper === undefined) {
      asked.push({ kind, id });
      bytes += Buffer.byteLength(JSON.stringify(id));
      if (bytes > ASKED_BYTES_MAX) throw unknownId({ kind, id }, member);
    } else {
      providers = providers.filter((provider) => provider === keeper.provider);
      call.kept_by_key = keeper.provider_key_id;
      call.kept_at = keeper.target_id;
    }
    if (providers.length === 0) throw unknownId({ kind, id }, member);
  }
  if (asked.length > 0) return { providers, ids: asked };
  keepTo(call, providers[0]);
  return undefined;
}

function isPossible(id: string): boolean {
  return id.length <= ID_CHARACTERS_MAX && isKept(id);
}

/**
 * Leaves a call to the targets of one provider: no other keeps what the request names. Of these the
 * one that made it goes ahead, as others may ask by another account.
 */
export function keepTo(call: Routed, provider: string | undefined): void {
  if (provider === undefined) return;
  const kept = call.candidates.filter(({ target }) => target.provider === provider);
  const isMaker = ({ target }: Candidate) => target.id === call.kept_at;
  // Of each model apart: who would serve another one is no better for it.
  const candidates = [...new Set(kept.map(({ name }) => name))].flatMap((name) => {
    const able = kept.filter((one) => one.name === name);
    return [...able.filter(isMaker), ...able.filter((one) => !isMaker(one))];
  });
  call.candidates = candidates;
  const [first] = candidates;
  if (first !== undefined) serveBy(call, first);
}

/**
 * What a reserve throws: if a stored thing is unknown, it is the member of the request that names
 * it.
 */
export function unknownIn({ named_ids = [] }: Begun, error: unknown): unknown {
  if (!isUnknownId(error)) return error;
  const { stored_id } = (error.details.extra ?? {}) as { stored_id?: NamedId };
  const named = named_ids.find(({ kind, id }) => kind === stored_id?.kind && id === stored_id?.id);
  return unknownId(stored_id, named?.member);
}

/** True if a request names a stored thing that is not its caller's. */
export function isUnknownId(error: unknown): error is AppError {
  return isAppError(error) && error.code === 'stored_id_unknown';
}

/**
 * True if a request that is not paid for names stored things that are not known here to be the
 * caller's.
 */
export function namesOthers(call: Routed): boolean {
  const { family, snapshot, gateway, request } = call;
  if (family.keeps === undefined || snapshot.settings.stored_ids === 'pass') return false;
  const owner = ownerOfIds(call);
  return namedIds(request.outgoing.bytes).some(
    (named) => gateway.stored_ids.keeperOf(owner, named) === undefined,
  );
}

/**
 * The family's reader, which also knows how the provider tells its usage, and notes what it keeps
 * of the answer.
 */
export function readerOf(call: Routed): Reader {
  const { family, request, target } = call;
  const { keeps } = family;
  const reader = withCostTold(target.wire?.cost, toldBy(target.wire, family.reader));
  if (keeps === undefined) return reader;
  const named = new Set(call.named_ids?.map(nameOf));
  const note = (kind: string, id: string): void => {
    // What a request has named is not made by its answer.
    if (isPossible(id) && !named.has(nameOf({ kind, id }))) noteStored(call, { kind, id });
  };
  return {
    ...reader,
    readAnswer(answer, found) {
      keeps(answer, request.body, note);
      reader.readAnswer(answer, found);
    },
    openStream(found, choices) {
      const readEvent = reader.openStream(found, choices);
      return (event) => {
        keeps(event, request.body, note);
        return readEvent(event);
      };
    },
  };
}

/** A reader of answers whose usage a provider tells in its own way. */
function toldBy(wire: Wire | undefined, reader: Reader): Reader {
  const { usage, served_tier } = wire ?? {};
  if (usage === undefined) return reader;
  const plain = (body: Body): Body => {
    if (!isObject(body.usage)) return body;
    const service_tier = body.service_tier ?? served_tier?.(body.usage);
    return { ...body, usage: usage(body.usage), service_tier };
  };
  return {
    ...reader,
    readAnswer: (answer, found) => reader.readAnswer(plain(answer), found),
    usageOf: (value) => reader.usageOf(isObject(value) ? usage(value) : value),
    openStream(found, choices) {
      const readEvent = reader.openStream(found, choices);
      return (event) => readEvent(plain(event));
    },
  };
}

/** Its answer is on its way to the client, who may name it in the next moment. */
function noteStored(call: Routed, { kind, id }: NamedId): void {
  const { id: target_id, provider, own_key_id: provider_key_id } = call.target;
  call.made_ids ??= [];
  const { made_ids } = call;
  const is_new = !made_ids.some((one) => one.id === id && one.kind === kind);
  if (!is_new || made_ids.length >= MADE_MAX) return;
  const stored = { kind, id, provider, provider_key_id };
  made_ids.push(stored);
  call.gateway.stored_ids.note(ownerOfIds(call), stored, target_id);
}

function nameOf({ kind, id }: NamedMember | NamedId): string {
  return `${kind} ${id}`;
}

/** Anybody can send the headers of header_soft, so they make nobody the owner. */
function ownerOfIds({ identity }: Identified): IdOwner {
  const { org_id, user_id, proof } = identity;
  return { org_id, user_id: proof === 'header_soft' ? null : user_id };
}
