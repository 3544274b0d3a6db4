/**
 * Seals secrets that the database keeps, and signs values that a client carries for us: by the
 * first of its keys. What was sealed or signed by any of them is good.
 */
export interface Secrets {
  /** Ciphertext of a text. `owner` says what it belongs to; it opens for the same owner only. */
  seal(text: string, owner: string): Promise<string>;
  /**
   * The text again. Throws if it was sealed for another owner or under another key, or was changed.
   */
  open(sealed: string, owner: string): Promise<string>;
  /** The same text sealed by the first key; as it is if that sealed it. Throws as `open` does. */
  reseal(sealed: string, owner: string): Promise<string>;
  /** A signature over parts, under a key that is derived for this one use. */
  sign(use: SignatureUse, ...parts: readonly string[]): Promise<string>;
  /** The signatures of all keys, for what is told in part of one alone. */
  signAll(use: SignatureUse, ...parts: readonly string[]): Promise<string[]>;
  /** True if the signature is of these parts; compared in constant time. */
  isSigned(signature: string, use: SignatureUse, ...parts: readonly string[]): Promise<boolean>;
}

// What each key is derived by. A name that is changed makes every signature of before worthless.
const keyLabels = {
  checkout_state: 'svc sign v1',
  verdict: 'svc verdict v1',
  payment_cancel: 'svc payment cancel v1',
  ticket_link: 'svc ticket link v1',
  page_nonce: 'svc page nonce v1',
  recipient_code: 'svc recipient code v1',
  provider_key: 'svc provider key v1',
} as const;

/**
 * What is signed: the state that a buyer carries, what moves things through Temporal, what notices
 * carry, and by what a provider's key is known again.
 */
export type SignatureUse = keyof typeof keyLabels;

type CryptoKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>;

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
/** Stands before every ciphertext, so that a later form can be distinguished from this one. */
const VERSION = 'v1';

/** A ciphertext that this process cannot open. */
class UnreadableSecret extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UnreadableSecret';
  }
}

/**
 * True for the error of a ciphertext that cannot be opened, of this or another copy of the module.
 */
export function isUnreadableSecret(error: unknown): error is Error {
  return error instanceof Error && error.name === 'UnreadableSecret';
}

/** True for base64 of exactly 32 bytes. */
export function isSecretsKey(text: string): boolean {
  return /^[A-Za-z0-9+/]{43}=$/.test(text);
}

/** The keys of SVC_SECRETS_KEY, the one that seals first; undefined unless all of them are keys. */
export function secretsKeysIn(text: string): string[] | undefined {
  const keys = text.split(',').map((key) => key.trim());
  return keys.every(isSecretsKey) ? keys : undefined;
}

/** Seals, opens and signs under the keys of a text: SVC_SECRETS_KEY. Throws if one is none. */
export function createSecrets(text: string): Secrets {
  const [first, ...others] = (secretsKeysIn(text) ?? []).map(createKey);
  if (first === undefined) throw new Error(`A secrets key is ${KEY_BYTES} bytes in base64.`);
  const all = [first, ...others];
  const open = async (sealed: string, owner: string) => {
    const [version, name] = sealed.split('.');
    if (version !== VERSION)
      throw new UnreadableSecret('A stored secret has a form of another version.');
    for (const key of all) if ((await key.name()) === name) return key.open(sealed, owner);
    throw new UnreadableSecret('A stored secret was sealed under another SVC_SECRETS_KEY.');
  };
  return {
    seal: first.seal,
    open,
    async reseal(sealed, owner) {
      const text = await open(sealed, owner);
      const is_by_first = sealed.split('.')[1] === (await first.name());
      return is_by_first ? sealed : first.seal(text, owner);
    },
    sign: first.sign,
    signAll: (use, ...parts) => Promise.all(all.map((key) => key.sign(use, ...parts))),
    async isSigned(signature, use, ...parts) {
      for (const key of all) if (await key.isSigned(signature, use, ...parts)) return true;
      return false;
    },
  };
}

type Key = Pick<Secrets, 'seal' | 'open' | 'sign' | 'isSigned'> & { name(): Promise<string> };

/** AES-256-GCM and HMAC-SHA256 under keys that are derived from one secret. */
function createKey(key_base64: string): Key {
  const root = crypto.subtle.importKey('raw', fromBase64(key_base64), 'HKDF', false, [
    'deriveKey',
    'deriveBits',
  ]);
  const sealing = Promise.all([root.then(sealingKey), root.then(keyName)]);
  const signing = new Map<SignatureUse, Promise<CryptoKey>>();
  const keyFor = (use: SignatureUse) => {
    const known = signing.get(use) ?? root.then((key) => signingKey(key, keyLabels[use]));
    signing.set(use, known);
    return known;
  };
  return {
    name: async () => (await sealing)[1],
    async seal(text, owner) {
      const [key, name] = await sealing;
      const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
      const sealed = await crypto.subtle.encrypt(gcm(nonce, owner), key, bytesOf(text));
      return [VERSION, name, toBase64(nonce), toBase64(new Uint8Array(sealed))].join('.');
    },
    async open(sealed, owner) {
      const [key] = await sealing;
      const [, , nonce = '', text = ''] = sealed.split('.');
      const clear = await crypto.subtle
        .decrypt(gcm(fromBase64(nonce), owner), key, fromBase64(text))
        .catch(() => {
          throw new UnreadableSecret('A stored secret was changed, or belongs to something else.');
        });
      return new TextDecoder().decode(clear);
    },
    async sign(use, ...parts) {
      const mac = await crypto.subtle.sign('HMAC', await keyFor(use), message(use, parts));
      return toBase64(new Uint8Array(mac));
    },
    async isSigned(signature, use, ...parts) {
      // WebCrypto compares in constant time; a text that is no base64 is no signature.
      if (!/^[\w-]+$/.test(signature)) return false;
      const given = fromBase64(signature);
      return crypto.subtle.verify('HMAC', await keyFor(use), given, message(use, parts));
    },
  };
}

// One key for one use: a leak of one reveals nothing of the other.
function derived(info: string) {
  return { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info: bytesOf(info) };
}

function sealingKey(root: CryptoKey): Promise<CryptoKey> {
  const aes = { name: 'AES-GCM', length: KEY_BYTES * 8 };
  return crypto.subtle.deriveKey(derived('svc seal v1'), root, aes, false, ['encrypt', 'decrypt']);
}

function signingKey(root: CryptoKey, info: string): Promise<CryptoKey> {
  const hmac = { name: 'HMAC', hash: 'SHA-256', length: KEY_BYTES * 8 };
  return crypto.subtle.deriveKey(derived(info), root, hmac, false, ['sign', 'verify']);
}

/** A name of a key that reveals nothing of it: by it a ciphertext finds its key. */
async function keyName(root: CryptoKey): Promise<string> {
  return toBase64(new Uint8Array(await crypto.subtle.deriveBits(derived('svc name v1'), root, 48)));
}

function gcm(iv: Uint8Array<ArrayBuffer>, owner: string) {
  return { name: 'AES-GCM', iv, additionalData: bytesOf(`${VERSION}.${owner}`) };
}

// As JSON the parts cannot run into each other: ("a", "bc") is not ("ab", "c").
function message(use: string, parts: readonly string[]): Uint8Array<ArrayBuffer> {
  return bytesOf(JSON.stringify([use, ...parts]));
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64url');
}

/** Of both alphabets. */
function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(text, 'base64'));
}
