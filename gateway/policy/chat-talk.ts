import { type Body, isObject, listOf, stringOf } from '../wire/values';
import { addSaid, type Called, indexOf, type Said, type Talk } from './talk';

/** How policies read chat completions. */
export const chatTalk: Talk = {
  unread: new Set(),
  said(chunk) {
    const found: Said[] = [];
    for (const [choice, part] of partsOf(chunk)) addSaid(found, part, `${choice}`);
    return found;
  },
  ended: (chunk) =>
    listOf(chunk.choices)
      .filter(({ finish_reason }) => typeof finish_reason === 'string')
      .map((choice, at) => `${indexOf(choice, at)}.`),
  called: (chunk) => partsOf(chunk).flatMap(([choice, part]) => callsIn(choice, part)),
  callsOf: (answer) =>
    partsOf(answer)
      .flatMap(([choice, part]) => callsIn(choice, part).map(({ name }) => name))
      .filter((name) => name !== ''),
};

/** The text of each choice, by the number of the choice. */
function partsOf({ choices }: Body): [number | string, Body][] {
  const parts: [number | string, Body][] = [];
  for (const [at, choice] of listOf(choices).entries()) {
    for (const part of [choice.delta, choice.message]) {
      if (isObject(part)) parts.push([indexOf(choice, at), part]);
    }
  }
  return parts;
}

function callsIn(choice: number | string, part: Body): Called[] {
  const calls = listOf(part.tool_calls).flatMap((call, at) =>
    calledBy(`${choice}.tool_calls.${indexOf(call, at)}`, call, stringOf(call.id)),
  );
  if (isObject(part.function_call)) {
    calls.push(...calledBy(`${choice}.function_call`, part.function_call, ''));
  }
  return calls;
}

/** A call names its tool in an object of its kind; the names of all kinds count. */
function calledBy(call: string, holder: Body, id: string): Called[] {
  const { name, arguments: given, input, function: of_function, custom } = holder;
  const is_whole = stringOf(given) + stringOf(input) !== '';
  return [
    { call, id, name: stringOf(name), is_whole },
    ...(isObject(of_function) ? calledBy(`${call}.function`, of_function, id) : []),
    ...(isObject(custom) ? calledBy(`${call}.custom`, custom, id) : []),
  ];
}
