import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';

/**
 * How far a payment is, in the words that both sandbox providers share; each speaks its own on its
 * wire.
 */
type OrderStatus = 'open' | 'approved' | 'paid' | 'expired';
export type MoneyStatus = 'pending' | 'completed' | 'failed';

/**
 * Money in the provider's own smallest unit: 50.00 EUR is 5000, and the unit of JPY depends on the
 * provider.
 */
export interface Money {
  amount: number;
  currency: string;
}

export interface Capture extends Money {
  id: string;
  status: MoneyStatus;
  created_at: string;
}

export interface Refund extends Money {
  id: string;
  status: MoneyStatus;
  /** The merchant's own reference, sent with the order. */
  given: Record<string, unknown>;
  /** operator: made at the provider's own site. reversal: taken back by a bank. */
  made_by: 'api' | 'operator' | 'reversal';
  created_at: string;
}

export interface Dispute extends Money {
  id: string;
  status: 'open' | 'won' | 'lost';
  /** An inquiry has moved no money. */
  is_inquiry: boolean;
  /** How its capture stands while it is open, at provider A; as before if absent. */
  capture_status?: 'pending' | 'failed';
  /** Captures of other orders that it is about, too, at provider A. */
  beside?: (Capture & { reference: string | null })[];
  /** Refunds that the merchant made because of it, by id. Files of before have none. */
  refund_ids?: string[];
  created_at: string;
}

export interface Order extends Money {
  id: string;
  status: OrderStatus;
  /** The buyer's means of payment is refused. */
  is_declined: boolean;
  /** The merchant's own name of it: custom_id or client_reference_id. */
  reference: string | null;
  description: string;
  return_url: string;
  cancel_url: string;
  created_at: string;
  expires_at: string;
  capture: Capture | null;
  refunds: Refund[];
  disputes: Dispute[];
  /** Members that only this provider's wire knows. */
  wire: Record<string, unknown>;
}

/** A webhook: the bytes that are posted, and the outcome. */
export interface StoredEvent {
  id: string;
  type: string;
  order_id: string;
  body: string;
  created_at: string;
  tries: number;
  delivered: number;
  last_answer: string | null;
  /** waiting: is being tried. ended: delivered, blocked or given up. */
  state: 'waiting' | 'ended';
}

/** The answer that was given under an idempotency key. */
export interface Replay {
  id: string;
  fingerprint: string;
  status: number;
  body: unknown;
}

interface Kinds {
  orders: Order;
  events: StoredEvent;
  replays: Replay;
}

export interface Store {
  orders: Map<string, Order>;
  events: Map<string, StoredEvent>;
  replays: Map<string, Replay>;
  save<Kind extends keyof Kinds>(kind: Kind, value: Kinds[Kind]): void;
}

/**
 * The memory of a sandbox provider. With a file it survives a restart: each change is one appended
 * line, the last line of an object counts, and opening writes the file anew without outdated lines.
 */
export function createStore(file?: string): Store {
  const store: Store = {
    orders: new Map(),
    events: new Map(),
    replays: new Map(),
    save(kind, value) {
      (store[kind] as Map<string, typeof value>).set(value.id, value);
      if (file) appendFileSync(file, line(kind, value));
    },
  };
  if (file) load(store, file);
  return store;
}

function line(kind: string, value: unknown): string {
  return `${JSON.stringify([kind, value])}\n`;
}

function load(store: Store, file: string): void {
  mkdirSync(path.dirname(file), { recursive: true });
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
  for (const text of lines) {
    const entry = parse(text);
    if (entry) (store[entry[0]] as Map<string, unknown>).set(entry[1].id, entry[1]);
  }
  const kinds = ['orders', 'events', 'replays'] as const;
  const kept = kinds.flatMap((kind) => [...store[kind].values()].map((value) => line(kind, value)));
  writeFileSync(`${file}.new`, kept.join(''), { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

/** Undefined if a killed process has cut the line. */
function parse(text: string): [keyof Kinds, Kinds[keyof Kinds]] | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
