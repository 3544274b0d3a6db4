import { addSaid, type Called, offeredTools, type Said, type Talk } from './policy-talk';
import { type Body, isObject, listOf, stringOf } from './usage';

/** How policies read chat completions. */
export const chatTalk: Talk = {
  roots: new Set(['choices']),
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
    partsOf(answer).flatMap(([choice, part]) => callsIn(choice, part).map(({ name }) => name)),
  offeredBy: ({ tools, functions }) => [...offeredTools(tools), ...offeredTools(functions)],
  scrub(chunk) {
    for (const choice of listOf(chunk.choices)) if ('logprobs' in choice) choice.logprobs = null;
  },
};

/** What each choice says, by the number of the choice. */
function partsOf({ choices }: Body): [number, Body][] {
  const parts: [number, Body][] = [];
  for (const [at, choice] of listOf(choices).entries()) {
    for (const part of [choice.delta, choice.message]) {
      if (isObject(part)) parts.push([indexOf(choice, at), part]);
    }
  }
  return parts;
}

function indexOf({ index }: Body, otherwise: number): number {
  return typeof index === 'number' ? index : otherwise;
}

function callsIn(choice: number, part: Body): Called[] {
  const calls = listOf(part.tool_calls).map((call, at) => {
    const index = indexOf(call, at);
    const inner = isObject(call.function)
      ? call.function
      : isObject(call.custom)
        ? call.custom
        : {};
    return calledBy(`${choice}.tool_calls.${index}`, inner);
  });
  if (isObject(part.function_call)) {
    calls.push(calledBy(`${choice}.function_call`, part.function_call));
  }
  return calls;
}

function calledBy(call: string, { name, arguments: given, input }: Body): Called {
  return { call, name: stringOf(name), is_whole: stringOf(given) + stringOf(input) !== '' };
}
