const LENGTHS = { short: 126, long: 127 };
const CONTROL = 0x8;
const FIN = 0x80;
const MASK = 0x80;

/** How many bytes the head of a frame has, by its second one (RFC 6455, section 5.2). */
function headBytes(second: number): number {
  const length = second & ~MASK;
  const extended = { [LENGTHS.short]: 2, [LENGTHS.long]: 8 }[length] ?? 0;
  return 2 + extended + (second & MASK ? 4 : 0);
}

function payloadBytes(head: Buffer): number {
  const length = (head[1] ?? 0) & ~MASK;
  if (length === LENGTHS.short) return head.readUInt16BE(2);
  if (length === LENGTHS.long) return Number(head.readBigUInt64BE(2));
  return length;
}

/**
 * Follows the bytes of a client to know what of them is a message that is not whole: the data of
 * its frames that has come, whatever pings stand between them. What is no frame is another's to
 * refuse.
 */
export class MessageReader {
  /** Bytes of the message that has begun. */
  bytes = 0;
  private head: number[] = [];
  /** Bytes that are to come of the frame whose head is read. */
  private left = 0;
  /** A further frame continues the message. */
  private is_continued = false;
  /** How many messages have become whole. */
  messages = 0;

  /** True if nothing has come of a message, or all. */
  get is_whole(): boolean {
    return this.head.length === 0 && !this.is_continued;
  }

  read(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.left > 0) {
        const taken = Math.min(this.left, chunk.length - at);
        this.take(taken);
        at += taken;
      } else {
        this.head.push(chunk[at] as number);
        at += 1;
        this.open();
      }
    }
  }

  /** Begins a frame once its head is whole. */
  private open(): void {
    const { head } = this;
    if (head.length < 2 || head.length < headBytes(head[1] as number)) return;
    this.left = payloadBytes(Buffer.from(head));
    if (this.left === 0) this.end();
  }

  private take(bytes: number): void {
    this.left -= bytes;
    if (!this.is_control) this.bytes += bytes;
    if (this.left === 0) this.end();
  }

  private get is_control(): boolean {
    return ((this.head[0] ?? 0) & CONTROL) !== 0;
  }

  private end(): void {
    const is_last = ((this.head[0] ?? 0) & FIN) !== 0;
    if (!this.is_control) {
      this.is_continued = !is_last;
      if (is_last) {
        this.bytes = 0;
        this.messages += 1;
      }
    }
    this.head = [];
  }
}
