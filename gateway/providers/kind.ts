import type { Betas } from './betas';

// A provider is a row of data: where it is, how it is told who asks, which routes it serves, and
// what it takes of a body. The pipeline knows these types and no provider.

/** Whose wire a family or a target speaks. */
export type Shape = 'openai' | 'anthropic' | 'gemini' | 'converse';

/** A family of routes by its name, as far as providers differ in serving it. */
export type Served =
  | 'chat_completions'
  | 'responses'
  | 'messages'
  | 'messages_count_tokens'
  | 'embeddings'
  | 'completions'
  | 'moderations'
  | 'audio_speech'
  | 'audio_transcriptions';

/** What a target may say of where its provider is. */
export interface Place {
  resource?: string | undefined;
  region?: string | undefined;
  project?: string | undefined;
  location?: string | undefined;
  api_version?: string | undefined;
  endpoint?: 'runtime' | 'mantle' | undefined;
}
export type PlaceName = keyof Place;

/** How a target proves who asks. */
export type AuthForm = 'none' | 'key' | 'aws' | 'google' | 'entra';

/** A method of Gemini's own wire that makes vectors: of several texts, or of one. */
export type VectorMethod = 'batchEmbedContents' | 'predict' | 'embedContent';

/** One request as its path and body depend on it. */
export interface Asked {
  /** The family's own path, such as `/chat/completions`. */
  path: string;
  /** The provider's name of the model. */
  model: string;
  is_stream: boolean;
  /** Values of `anthropic-beta` that the wire lets through. */
  betas: readonly string[];
  /** The `anthropic-version` that the client speaks, if it names one. */
  version?: string | undefined;
}

/** Turns the frames of an answer's body into the events of its wire. */
export interface Unframer {
  /** Throws for a damaged frame. */
  push(chunk: Buffer): Buffer;
  /** The answer has ended. Throws if a frame lacks its end. */
  end(): Buffer;
}

/** How a provider says what a call cost. */
export interface CostTold {
  /** The figures of a usage object whose sum it is; one that is missing leaves it unknown. */
  parts: (told: Readonly<Record<string, unknown>>) => readonly unknown[];
  /** How many places their unit stands behind a USD: 0 for USD themselves. */
  unit_places: number;
}

/** A list of models in parts, as Google's servers give it. */
export interface ModelList {
  /** Behind the base URL, with its query. */
  path: string;
  /** The member of the query that asks for the part behind another one. */
  token: string;
  /** What one answer holds of it. */
  read: (answer: Readonly<Record<string, unknown>>) => {
    names: readonly string[];
    next?: string | undefined;
  };
}

/** How a kind speaks one of its wires. */
export interface Wire {
  /**
   * The base URL at a place; a test or a proxy of one's own overrides it by `base_url`. Absent:
   * each target says it.
   */
  base_url?: (place: Place) => string;
  /** A part of the place at which this wire is not spoken. */
  unspoken_at?: PlaceName;
  /** Where a key stands: `bearer`, or the name of a header. */
  key: 'bearer' | 'x-api-key' | 'api-key' | 'x-goog-api-key';
  /** Headers that each request has. */
  headers?: Readonly<Record<string, string>>;
  query?: (place: Place) => Readonly<Record<string, string>>;
  /** Absent: every family of its shape. */
  families?: readonly Served[];
  /** What its list of models puts before their names. */
  list_prefix?: string;
  /**
   * Its list of models, where that is none of OpenAI's or Anthropic's wire; a wire whose models
   * stand in its paths has no list without it.
   */
  list?: ModelList;
  /** Its list of models is of what could be deployed there, and not of what is served. */
  lists_deployable?: true;
  /** False if it refuses `stream_options`, or gives its usage unasked. */
  stream_usage?: boolean;
  /** Its usage object in the words of the wire's maker, where its counts mean something else. */
  usage?: (told: Readonly<Record<string, unknown>>) => Record<string, unknown>;
  /** The tier that served, as its usage object tells it, in the words of a chat; beside `usage`. */
  served_tier?: (told: Readonly<Record<string, unknown>>) => string | undefined;
  /** The headers by which it is asked for a tier of service, if no member of its body does so. */
  tiers?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** How its usage object says what the call cost its account; absent: it does not. */
  cost?: CostTold;
  /** It bills each run of a tool, also of the one by which it searches the files of a request. */
  bills_runs?: true;
  /** Members of a body that it refuses and that change no answer: they are left out. */
  drop?: readonly string[];
  /**
   * Members that it refuses and that change the answer: 422, unless they say the same as their
   * absence; then they are left out.
   */
  lacks?: readonly string[];
  /** Members that change who serves or what it costs behind the gateway's back: 422. */
  refuses?: readonly string[];
  /** Members that are written into a chat or response with files, whose readers it bills apart. */
  with_files?: Readonly<Record<string, unknown>>;
  /** Members that are left out where they hold an empty list. */
  drop_empty?: readonly string[];
  /** Members that it calls otherwise. */
  rename?: Readonly<Record<string, string>>;
  /** Members that it refuses wherever they stand in a body, and that change no answer. */
  drop_anywhere?: readonly string[];
  /** Members that it refuses of an object anywhere in a body, or of a list's, by the name of it. */
  drop_inside?: Readonly<Record<string, readonly string[]>>;
  /** The same where they hold null or an empty list, which says nothing. */
  drop_empty_inside?: Readonly<Record<string, readonly string[]>>;
  /** It takes marks for a cache at blocks alone, and none of the whole request. */
  marks_blocks?: true;
  /** Members that the wire adds to each body. */
  members?: (asked: Asked) => Readonly<Record<string, unknown>>;
  /** Which values of `anthropic-beta` go there; none if absent. */
  betas?: 'all' | Betas;
  /** Values of it that this body does not do without there. */
  needs_betas?: (body: Readonly<Record<string, unknown>>) => readonly string[];
  /** Those that it refuses where tokens are counted. */
  lost_in_counts?: readonly string[];
  /** They go there in the body, by `members`, and not as a header. */
  has_betas_inside?: boolean;
  /** Other headers of the client that go there. */
  passes?: readonly string[];
  /** The method by which a model makes vectors, on Gemini's own wire. */
  vectors?: (model: string) => VectorMethod;
  /** The path behind the base URL, with a query if it has one; the family's own if absent. */
  path?: (asked: Asked) => string;
  /** For streams that are no event streams of text: gives what opens one, once it is loaded. */
  loadUnframer?: () => Promise<() => Unframer>;
}

/** A provider, or a way into one. */
export interface Kind {
  /** As `kind` names it, and the price list its provider. */
  name: string;
  /** The wires that it speaks; the first is the one of targets that name no `shape`. */
  wires: Readonly<Partial<Record<Shape, (place: Place) => Wire>>>;
  /** What a target must say of its place, and what it may. */
  needs?: readonly PlaceName[];
  takes?: readonly PlaceName[];
  auth: readonly AuthForm[];
  /** The service that a signature names, where `auth` has `aws`. */
  aws_service?: (place: Place) => string;
  /** The scope of its tokens, where `auth` has `entra` or `google`. */
  scope?: string;
}

/** A kind that is one public server with a key, and OpenAI's wire. */
export function keyedKind(
  name: string,
  base_url: string,
  wire: Partial<Omit<Wire, 'key' | 'base_url'>> & Pick<Wire, 'families'>,
  more: Partial<Pick<Kind, 'wires' | 'auth'>> = {},
): Kind {
  const { wires = {}, auth = ['key'] } = more;
  return { name, auth, wires: { openai: () => openaiWire(base_url, wire), ...wires } };
}

/** OpenAI's wire at a base URL. */
export function openaiWire(base_url: string | undefined, wire: Partial<Wire> = {}): Wire {
  return {
    ...(base_url === undefined ? {} : { base_url: () => base_url }),
    key: 'bearer',
    ...wire,
  };
}

/** The routes of Anthropic's wire, and those that count tokens there. */
export const message_families = ['messages', 'messages_count_tokens'] as const;

// For clients that name none; the provider refuses a request without.
export const anthropic_version = { 'anthropic-version': '2023-06-01' };

/** Anthropic's wire at a base URL. */
export function anthropicWire(base_url: string | undefined, wire: Partial<Wire> = {}): Wire {
  return {
    ...(base_url === undefined ? {} : { base_url: () => base_url }),
    key: 'x-api-key',
    headers: anthropic_version,
    passes: ['anthropic-version'],
    ...wire,
  };
}

/**
 * What OpenAI's wire has no word for: its providers keep a cache by themselves. Servers of one's
 * own, and those that pass requests on to others, may know it.
 */
export const without_caching = ['cache_control'] as const;

/**
 * Members of messages where a provider takes none that it does not know: who of several people
 * speaks, and of an answer that a client sends back with the next question the thoughts of another
 * provider, and what OpenAI's SDKs write as null.
 */
export const without_hints = {
  drop_inside: { messages: ['name', 'reasoning_content', 'reasoning_details'] },
  drop_empty_inside: { messages: ['refusal', 'annotations', 'audio', 'function_call'] },
} as const;

/** Members of a message that only its maker takes, and that change no answer elsewhere. */
export const claude_refused = ['service_tier', 'speed'] as const;

/** What other sellers of Claude take less of than its maker. */
export const claude_elsewhere = {
  drop_inside: { cache_control: ['scope'], tools: ['eager_input_streaming'] },
  marks_blocks: true,
  lacks: ['inference_geo'],
} as const;

/**
 * The version in a body for another seller of Claude: as their documents say for the first one, and
 * as the maker's own clients write it for those that came later.
 */
export function versionFor({ version = '' }: Asked, first: string): string {
  const is_later = /^\d{4}-\d{2}-\d{2}$/.test(version) && version > '2023-06-01';
  return is_later ? version : first;
}
