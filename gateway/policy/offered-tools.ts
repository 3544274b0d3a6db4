import { said, stringEnd } from '../wire/scan';

interface Scope {
  is_list: boolean;
  /** What its strings and objects are: tools, or nothing of that kind. */
  kind: 'root' | 'input' | 'item' | 'choice' | 'tools' | 'tool' | 'inner' | 'names' | 'other';
  member: string;
  takes_key: boolean;
  names: number;
  types: string[];
}

// Tools that only have a name; all others are what their type says, too.
const named_only = new Set(['function', 'custom', 'namespace']);
const lists = new Set(['tools', 'functions']);
const name_lists = new Set(['allowed_tools', 'tool_names']);

/**
 * The names of the tools that a request offers or asks for, and the types of those that the provider runs. They are read from the
 * text itself, as a provider may take the first of two members of one name, and whatever the form of another family they have.
 */
export function offeredTools(text: string): string[] {
  const offered: string[] = [];
  const stack: Scope[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const top = stack.at(-1);
    const character = text[at];
    if (character === '"') {
      const end = stringEnd(text, at);
      if (top !== undefined && top.kind !== 'other') takeString(top, said(text, at, end), offered);
      at = end - 1;
    } else if (character === '[' || character === '{') {
      const is_list = character === '[';
      const kind = top === undefined ? 'root' : kindOf(top, is_list);
      stack.push({ is_list, kind, member: '', takes_key: !is_list, names: 0, types: [] });
    } else if (character === ']' || character === '}') {
      stack.pop();
      if (top !== undefined) closeScope(top, stack.at(-1), offered);
    } else if (character === ',' && top?.is_list === false) top.takes_key = true;
  }
  return offered;
}

function takeString(scope: Scope, value: string, offered: string[]): void {
  if (scope.takes_key) {
    scope.member = value;
    scope.takes_key = false;
    return;
  }
  const { kind, is_list, member } = scope;
  if (is_list) {
    if (kind === 'tools' || kind === 'names') offered.push(value);
    return;
  }
  if (kind !== 'tool' && kind !== 'inner' && kind !== 'choice') return;
  if (member === 'name') {
    offered.push(value);
    scope.names += 1;
  } else if (member === 'type' && kind === 'tool') scope.types.push(value);
}

/** What a list or an object is, by the one that it stands in. */
function kindOf({ kind, is_list, member }: Scope, opens_list: boolean): Scope['kind'] {
  if (kind === 'root') {
    if (lists.has(member)) return opens_list ? 'tools' : 'tool';
    if (member === 'tool_choice' || member === 'function_call') return 'choice';
    return member === 'input' && opens_list ? 'input' : 'other';
  }
  if (kind === 'input') return 'item';
  if (kind === 'item') return lists.has(member) && opens_list ? 'tools' : 'other';
  if (kind === 'other') return 'other';
  if (is_list) return kind === 'names' ? 'names' : kind === 'tools' && !opens_list ? 'tool' : kind;
  if (lists.has(member)) return kind === 'choice' ? 'choice' : 'tools';
  if (name_lists.has(member)) return kind === 'choice' ? 'choice' : 'names';
  return member === 'function' || member === 'custom' ? 'inner' : 'other';
}

function closeScope(scope: Scope, holder: Scope | undefined, offered: string[]): void {
  // Some tools have their name one object deeper.
  if (scope.kind === 'inner' && holder !== undefined) holder.names += scope.names;
  if (scope.kind !== 'tool') return;
  offered.push(...scope.types.filter((type) => scope.names === 0 || !named_only.has(type)));
}
