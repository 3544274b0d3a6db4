import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '../../domain/errors';
import { cut } from '../../domain/texts';
import { isObject } from '../wire/values';
import { isModern, type Message, type Messages } from './messages';

// The newest protocol repeats a body's words in headers, for routers that do not read bodies. Here
// bodies are read, so that both must say the same; its words are "Request Metadata" of its
// Streamable HTTP.

const VERSION = 'mcp-protocol-version';
const METHOD = 'mcp-method';
const NAME = 'mcp-name';
const VERSION_MEMBER = 'io.modelcontextprotocol/protocolVersion';
/** The parameter by which each method names its addressee. */
const addressees: Record<string, string> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
};
const SHOWN_CHARACTERS = 64;

/**
 * Refuses a request whose headers and body disagree, or which lacks a header that its protocol
 * wants.
 */
export function checkHeaders(headers: IncomingHttpHeaders, { all }: Messages): void {
  for (const message of all) {
    const { id, method, params } = message;
    if (method === undefined) continue;
    const version = versionIn(message);
    // Of notifications no header is wanted.
    const is_wanted = id !== undefined && isModern(version);
    if (version !== undefined) check(VERSION, headers, version, is_wanted);
    check(METHOD, headers, method, is_wanted);
    if (!Object.hasOwn(addressees, method)) continue;
    const told = params[addressees[method] as string];
    // A body that names nobody is refused for that.
    if (typeof told === 'string') check(NAME, headers, told, is_wanted);
  }
}

/** The version that a body names; a header alone makes no request of the newest protocol. */
function versionIn({ params }: Message): string | undefined {
  const { _meta: meta } = params;
  const version = isObject(meta) ? meta[VERSION_MEMBER] : undefined;
  return typeof version === 'string' ? version : undefined;
}

function check(name: string, headers: IncomingHttpHeaders, told: string, is_wanted: boolean): void {
  const given = headers[name];
  if (given === undefined && !is_wanted) return;
  if (typeof given === 'string' && decodedValue(given) === told) return;
  const here = given === undefined ? 'is missing' : `says ${shown(String(given))}`;
  throw new AppError(
    'header_mismatch',
    `Header mismatch: ${name} ${here}, and the body says ${shown(told)}.`,
    { param: name },
  );
}

function shown(value: string): string {
  return JSON.stringify(cut(value, SHOWN_CHARACTERS));
}

const sentinel = /^=\?base64\?((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)\?=$/;
const plain = /^[\t\x20-\x7e]*$/;

/** The text of a header's value; undefined if the protocol knows no such value. */
export function decodedValue(value: string): string | undefined {
  if (!plain.test(value)) return undefined;
  if (!value.startsWith('=?base64?') || !value.endsWith('?=')) return value;
  const coded = sentinel.exec(value)?.[1];
  if (coded === undefined) return undefined;
  const bytes = Buffer.from(coded, 'base64');
  const text = bytes.toString('utf8');
  return Buffer.from(text).equals(bytes) ? text : undefined;
}

/** A value as the protocol writes it into a header. */
export function encodedValue(value: string): string {
  const is_plain = plain.test(value) && value.trim() === value && !value.startsWith('=?base64?');
  return is_plain ? value : `=?base64?${Buffer.from(value).toString('base64')}?=`;
}
