import { createHash } from 'node:crypto';
import { CompactEncrypt, compactDecrypt } from 'jose';
import type { Context } from 'koa';
import { AppError } from '../../domain/errors';

// The console keeps nothing: a session is a cookie, sealed around the key that the API has made
// for it. Whoever steals the cookie has what its person has until they sign out, as the key ends
// then; script of the page reads neither.

const COOKIE = '__Host-Http-svc';
const CHAT_COOKIE = '__Host-Http-svc-chat';
const SIGN_IN_COOKIE = '__Host-Http-svc-sign-in';
const CHOICE_COOKIE = '__Host-Http-svc-choice';
const SIGN_IN_S = 600;
/** A browser keeps cookies of 4 kB, which is a third more than what is sealed in them. */
const CHOICE_BYTES = 2_400;

/** The gateway key of a session's chat, which the API has made for it and which ends with it. */
export interface ChatKey {
  key: string;
  name: string;
}

/** What the cookie holds. */
export interface Session {
  /** The API's key of this session. */
  key: string;
  /** Null for an operator, whose platform key stands for nobody. */
  user_id: string | null;
  /** The organization that an operator looks at; null: none is chosen, or a person's is theirs. */
  org_id: string | null;
  /** The organization that a person is signed in to; absent in cookies of consoles before 1.5. */
  own_org_id?: string | null;
  /** Milliseconds since 1970. */
  expires_at: number;
}

/** What a sign-in at an identity provider keeps in the browser until it comes back. */
export interface SignIn {
  issuer_id: string;
  /** How the provider calls itself. */
  issuer: string;
  state: string;
  nonce: string;
  code_verifier: string;
  org_id: string | null;
  /** The code that binds whoever signs in to a member; absent without one. */
  invitation?: string | undefined;
  /** The page to go on with. */
  next: string;
}

/** Where somebody may sign in to, who is a member of several organizations. */
export interface Choice {
  issuer_id: string;
  organizations: { org_id: string; name: string }[];
  /** There are more than a cookie holds. */
  has_more: boolean;
  /** The page to go on with. */
  next: string;
}

/** Seals and opens what is kept in cookies; the first key seals, all of them open. */
function createSeal(keys: readonly string[]) {
  const secrets = keys.map((key) => new Uint8Array(Buffer.from(key, 'base64')));
  const [sealing] = secrets;
  if (sealing === undefined) throw new Error('There is no key for cookies.');
  const seal = (kind: string, value: object) =>
    new CompactEncrypt(new TextEncoder().encode(JSON.stringify({ ...value, kind })))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .encrypt(sealing);

  async function open<T>(kind: string, sealed: string | undefined): Promise<T | undefined> {
    if (sealed === undefined) return undefined;
    for (const secret of secrets) {
      const text = await compactDecrypt(sealed, secret, {
        keyManagementAlgorithms: ['dir'],
        contentEncryptionAlgorithms: ['A256GCM'],
      }).catch(() => undefined);
      if (text === undefined) continue;
      const { kind: found, ...value } = JSON.parse(new TextDecoder().decode(text.plaintext));
      return found === kind ? (value as T) : undefined;
    }
    return undefined;
  }
  return { seal, open };
}

/** The cookies of the console. */
export type Cookies = ReturnType<typeof createCookies>;

/** @param keys 32 bytes each in base64: CONSOLE_COOKIE_KEYS. */
export function createCookies(keys: readonly string[]) {
  const sealing = createSeal(keys);
  const { seal, open } = sealing;
  return {
    /** The session of a request; undefined without one, or with one that has ended. */
    async read(ctx: Context): Promise<Session | undefined> {
      const session = await open<Session>('session', cookieOf(ctx, COOKIE));
      return session && session.expires_at > Date.now() ? session : undefined;
    },
    async write(ctx: Context, session: Session): Promise<void> {
      const sealed = await seal('session', session);
      append(ctx, `${COOKIE}=${sealed}; SameSite=Strict; Max-Age=${lifeOf(session)}`);
    },
    /** Takes the session and its chat out of the browser. */
    clear(ctx: Context): void {
      append(ctx, `${COOKIE}=; SameSite=Strict; Max-Age=0`);
      append(ctx, `${CHAT_COOKIE}=; SameSite=Strict; Max-Age=0`);
    },
    /** The key of the chat of this session; that of an earlier one is nobody's. */
    async readChat(ctx: Context, session: Session): Promise<ChatKey | undefined> {
      const kept = await open<ChatKey & { of: string }>('chat', cookieOf(ctx, CHAT_COOKIE));
      return kept?.of === markOf(session) ? { key: kept.key, name: kept.name } : undefined;
    },
    /**
     * Keeps the key of a chat in a cookie of its own: its answer may come after a sign-in of
     * another tab, whose session stays as it is.
     */
    async writeChat(ctx: Context, session: Session, chat: ChatKey): Promise<void> {
      const sealed = await seal('chat', { ...chat, of: markOf(session) });
      append(ctx, `${CHAT_COOKIE}=${sealed}; SameSite=Strict; Max-Age=${lifeOf(session)}`);
    },
    clearChat(ctx: Context): void {
      append(ctx, `${CHAT_COOKIE}=; SameSite=Strict; Max-Age=0`);
    },
    /** Kept while a person is at their identity provider, whose answer comes from another site. */
    async beginSignIn(ctx: Context, sign_in: SignIn): Promise<void> {
      const sealed = await seal('sign-in', { ...sign_in, until: Date.now() + SIGN_IN_S * 1_000 });
      append(ctx, `${SIGN_IN_COOKIE}=${sealed}; SameSite=Lax; Max-Age=${SIGN_IN_S}`);
    },
    /** What was kept, once: it is taken out of the browser. */
    async endSignIn(ctx: Context): Promise<SignIn | undefined> {
      const kept = await open<SignIn & { until: number }>('sign-in', cookieOf(ctx, SIGN_IN_COOKIE));
      append(ctx, `${SIGN_IN_COOKIE}=; SameSite=Lax; Max-Age=0`);
      return kept && kept.until > Date.now() ? kept : undefined;
    },
    ...choiceCookies(sealing),
  };
}

function choiceCookies({ seal, open }: ReturnType<typeof createSeal>) {
  return {
    /** Offers a choice of organizations, as many as there is room for, until somebody signs in. */
    async offer(ctx: Context, choice: Omit<Choice, 'has_more'>): Promise<void> {
      let bytes = choice.next.length;
      const organizations = choice.organizations.filter((one) => {
        bytes += Buffer.byteLength(JSON.stringify(one));
        return bytes <= CHOICE_BYTES;
      });
      const has_more = organizations.length < choice.organizations.length;
      const until = Date.now() + SIGN_IN_S * 1_000;
      const sealed = await seal('choice', { ...choice, organizations, has_more, until });
      append(ctx, `${CHOICE_COOKIE}=${sealed}; SameSite=Strict; Max-Age=${SIGN_IN_S}`);
    },
    /** What is offered to this browser. */
    async readChoice(ctx: Context): Promise<Choice | undefined> {
      const kept = await open<Choice & { until: number }>('choice', cookieOf(ctx, CHOICE_COOKIE));
      if (kept === undefined || kept.until <= Date.now()) return undefined;
      const { until, ...choice } = kept;
      return choice;
    },
    clearChoice(ctx: Context): void {
      append(ctx, `${CHOICE_COOKIE}=; SameSite=Strict; Max-Age=0`);
    },
  };
}

function lifeOf({ expires_at }: Session): number {
  return Math.max(1, Math.floor((expires_at - Date.now()) / 1_000));
}

/** By which a chat knows its session. */
export function markOf({ key }: Pick<Session, 'key'>): string {
  return createHash('sha256').update(key).digest('base64url');
}

function append(ctx: Context, cookie: string): void {
  ctx.append('set-cookie', `${cookie}; Path=/; Secure; HttpOnly`);
}

/** The value of a cookie; undefined without one, and if two have the name. */
function cookieOf(ctx: Context, name: string): string | undefined {
  const found = ctx
    .get('cookie')
    .split('; ')
    .filter((one) => one.startsWith(`${name}=`))
    .map((one) => one.slice(name.length + 1));
  return found.length === 1 && found[0] !== '' ? found[0] : undefined;
}

/** The refusal of a request without a session. */
export function signedOut(): AppError {
  return new AppError('invalid_credential', 'You are signed out. Sign in again.');
}
