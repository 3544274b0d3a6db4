import { type Container, said, walk } from '../wire/scan';

/** The meaning of a list or an object of a request. */
type PartKind =
  | 'root'
  | 'input'
  | 'item'
  | 'choice'
  | 'tools'
  | 'tool'
  | 'servers'
  | 'server'
  | 'inner'
  | 'configuration'
  | 'names'
  | 'other';

interface Part {
  kind: PartKind;
  /** The number of its names so far. */
  names: number;
  types: string[];
}

// Most of a request: nothing in it is counted.
const other: Part = { kind: 'other', names: 0, types: [] };

// Tools that only have a name; all others are what their type says, too.
const named_only = new Set(['function', 'custom', 'namespace']);
const lists = new Set(['tools', 'functions']);
// An MCP server offers tools as the tool of that type does.
const SERVER_TOOL = 'mcp';
const name_lists = new Set(['allowed_tools', 'tool_names']);

/**
 * The names of the tools that a request offers or asks for, and the types of those that the
 * provider runs. They are read from the text itself, as a provider may take the first of two
 * members of one name, and in the forms of all families.
 */
export function offeredTools(text: string): string[] {
  const offered: string[] = [];
  walk<Part>(text, {
    open(outer, is_list) {
      const kind = outer === undefined ? 'root' : kindOf(outer, is_list);
      if (outer?.role.kind === 'root' && outer.member === 'web_search_options')
        offered.push('web_search');
      return kind === 'other' ? other : { kind, names: 0, types: [] };
    },
    string(holder, start, end) {
      if (holder.role.kind !== 'other') takeString(holder, said(text, start, end), offered);
    },
    close: (container) => closePart(container, offered),
  });
  return offered;
}

function takeString(
  { role: part, is_list, member }: Container<Part>,
  value: string,
  offered: string[],
): void {
  const { kind } = part;
  if (is_list) {
    if (kind === 'tools' || kind === 'names') offered.push(value);
    return;
  }
  if (kind !== 'tool' && kind !== 'inner' && kind !== 'choice') return;
  if (member === 'name') {
    offered.push(value);
    part.names += 1;
  } else if (member === 'type' && kind === 'tool') part.types.push(value);
}

/** The meaning of a list or an object, by the one that it stands in. */
function kindOf(outer: Container<Part>, opens_list: boolean): PartKind {
  const { is_list, member } = outer;
  const { kind } = outer.role;
  if (kind === 'root') {
    if (lists.has(member)) return opens_list ? 'tools' : 'tool';
    if (member === 'mcp_servers') return opens_list ? 'servers' : 'server';
    if (member === 'tool_choice' || member === 'function_call') return 'choice';
    return member === 'input' && opens_list ? 'input' : 'other';
  }
  if (kind === 'input') return 'item';
  if (kind === 'servers') return 'server';
  if (kind === 'server' && !name_lists.has(member)) {
    return member === 'tool_configuration' ? 'configuration' : 'other';
  }
  if (kind === 'item') return lists.has(member) && opens_list ? 'tools' : 'other';
  if (kind === 'other') return 'other';
  if (is_list) return kind === 'names' ? 'names' : kind === 'tools' && !opens_list ? 'tool' : kind;
  if (lists.has(member)) return kind === 'choice' ? 'choice' : 'tools';
  if (name_lists.has(member)) return kind === 'choice' ? 'choice' : 'names';
  return member === 'function' || member === 'custom' ? 'inner' : 'other';
}

function closePart({ role: part, outer }: Container<Part>, offered: string[]): void {
  // Some tools have their name one object deeper.
  if (part.kind === 'inner' && outer !== undefined) outer.role.names += part.names;
  if (part.kind === 'server') offered.push(SERVER_TOOL);
  if (part.kind !== 'tool') return;
  offered.push(...part.types.filter((type) => part.names === 0 || !named_only.has(type)));
}
