import { BACKSLASH, NEWLINE, TAB, unescaped } from '../domain/exports/copy-text';

const [QUOTE, MINUS, ZERO, POINT, LOWER_V] = [34, 45, 48, 46, 118];
const [SPACE, LETTER_T, LETTER_Z] = Buffer.from(' TZ') as unknown as [number, number, number];
/** How long a time is up to its seconds. */
const SECONDS_LENGTH = 19;
const hex = Buffer.from('0123456789abcdef');
const vertical_tab = Buffer.from('\\u000b');
const controlled = Buffer.from('\\u00');

/**
 * Bytes of lines that grow value by value. A value is given as the place in COPY's text where it
 * begins; each `put` of a value returns where it ends, at its tab or newline. Nothing checks for
 * room: a row is begun with enough of it.
 */
export class Lines {
  private bytes: Buffer;
  private end = 0;

  constructor(size: number) {
    this.bytes = Buffer.allocUnsafe(size);
  }

  /** What has been written, if there is no room for so many bytes more; what follows is new. */
  taken(room: number): Buffer | undefined {
    const { bytes, end } = this;
    if (end + room <= bytes.length) return undefined;
    this.bytes = Buffer.allocUnsafe(Math.max(bytes.length, room));
    this.end = 0;
    return bytes.subarray(0, end);
  }

  /** What is left at the end. */
  rest(): Buffer {
    return this.bytes.subarray(0, this.end);
  }

  put(piece: Buffer): void {
    // A call that copies memory costs more than the few bytes that pieces have.
    const { bytes } = this;
    let { end } = this;
    for (let at = 0; at < piece.length; at += 1) bytes[end++] = piece[at] as number;
    this.end = end;
  }

  byte(byte: number): void {
    this.bytes[this.end++] = byte;
  }

  /** A value as it is. */
  value(text: Buffer, from: number): number {
    const { bytes } = this;
    let { end } = this;
    let at = from;
    for (; text[at] !== TAB && text[at] !== NEWLINE; at += 1) {
      let byte = text[at] as number;
      if (byte === BACKSLASH) byte = unescaped(text[++at] as number);
      bytes[end++] = byte;
    }
    this.end = end;
    return at;
  }

  /** A value with each of its quotes doubled, and a quote behind it: RFC 4180. */
  doubled(text: Buffer, from: number): number {
    let at = from;
    for (; text[at] !== TAB && text[at] !== NEWLINE; at += 1) {
      let byte = text[at] as number;
      if (byte === QUOTE) this.byte(QUOTE);
      if (byte === BACKSLASH) byte = unescaped(text[++at] as number);
      this.byte(byte);
    }
    this.byte(QUOTE);
    return at;
  }

  /** A value as a text of JSON. COPY escapes what ends a line as JSON does, but for one. */
  json(text: Buffer, from: number): number {
    const { bytes } = this;
    let { end } = this;
    let at = from;
    bytes[end++] = QUOTE;
    for (; text[at] !== TAB && text[at] !== NEWLINE; at += 1) {
      const byte = text[at] as number;
      if (byte === BACKSLASH) {
        const letter = text[++at] as number;
        if (letter === LOWER_V) {
          bytes.set(vertical_tab, end);
          end += vertical_tab.length;
        } else {
          bytes[end++] = BACKSLASH;
          bytes[end++] = letter;
        }
      } else if (byte === QUOTE) {
        bytes[end++] = BACKSLASH;
        bytes[end++] = QUOTE;
      } else if (byte < 32) {
        bytes.set(controlled, end);
        end += controlled.length;
        bytes[end++] = hex[byte >> 4] as number;
        bytes[end++] = hex[byte & 15] as number;
      } else bytes[end++] = byte;
    }
    bytes[end++] = QUOTE;
    this.end = end;
    return at;
  }

  /** A time as ISO 8601 in UTC, to the millisecond. PostgreSQL leaves zeros at the end away. */
  time(text: Buffer, from: number): number {
    const { bytes } = this;
    let { end } = this;
    let at = from;
    for (; at < from + SECONDS_LENGTH; at += 1)
      bytes[end++] = text[at] === SPACE ? LETTER_T : (text[at] as number);
    bytes[end++] = POINT;
    let digits = 0;
    if (text[at] === POINT)
      for (at += 1; isDigit(text[at] as number); at += 1)
        if (digits++ < 3) bytes[end++] = text[at] as number;
    for (; digits < 3; digits += 1) bytes[end++] = ZERO;
    bytes[end++] = LETTER_Z;
    this.end = end;
    while (text[at] !== TAB && text[at] !== NEWLINE) at += 1;
    return at;
  }

  /** Digits of nanos as the exact decimal of major units: as decimalOf, from bytes to bytes. */
  decimal(text: Buffer, from: number): number {
    let first = from;
    if (text[first] === MINUS) {
      this.byte(MINUS);
      first += 1;
    }
    let to = first;
    while (text[to] !== TAB && text[to] !== NEWLINE) to += 1;
    const point = to - 9;
    let last = to;
    while (last > point && last > first && text[last - 1] === ZERO) last -= 1;
    if (point <= first) this.byte(ZERO);
    for (let at = first; at < point; at += 1) this.byte(text[at] as number);
    if (last > Math.max(point, first)) this.byte(POINT);
    for (let at = point; at < last; at += 1)
      if (at >= first) this.byte(text[at] as number);
      else if (last > first) this.byte(ZERO);
    return to;
  }
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= ZERO + 9;
}
