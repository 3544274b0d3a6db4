import { parseArgs } from 'node:util';
import { ConfigError } from '../runtime/config';

/** What a client is told of. */
interface Place {
  /** The gateway's origin, without a slash at its end. */
  gateway: string;
  model: string;
  /** Absent: the client takes it from the environment, as it should. */
  project: string | undefined;
}

const KEY = 'SVC_GATEWAY_KEY';
// A tag has no blanks and no commas.
const folder = '$(basename "$PWD" | tr -c "A-Za-z0-9\\n" -)';

interface Client {
  /** Where its lines go. */
  words: string;
  lines: (place: Place) => string[];
  /** It cannot send custom headers: neither project nor session. */
  has_no_headers?: true;
  /** Why a Claude model is refused, if its wire has none. */
  no_claude?: string;
}

const clients: Record<string, Client> = {
  'claude-code': {
    words: 'in the shell that starts claude',
    lines: ({ gateway, model, project }) => [
      `export ANTHROPIC_BASE_URL=${gateway}`,
      `export ANTHROPIC_AUTH_TOKEN=$${KEY}`,
      '# Not needed here; two credentials side by side only confuse.',
      'unset ANTHROPIC_API_KEY',
      ...(isClaude(model) ? [] : ['# Claude Code speaks Messages, which models of OpenAI do not.']),
      `export ANTHROPIC_MODEL=${model}`,
      '# Titles and summaries; any priced model of the Messages wire.',
      `export ANTHROPIC_DEFAULT_HAIKU_MODEL=${model}`,
      '# What the calls of this shell are for, on the bill; each conversation is a session by itself.',
      `export ANTHROPIC_CUSTOM_HEADERS="x-svc-tags: project-${project ?? folder}"`,
    ],
  },
  codex: {
    words: 'in ~/.codex/config.toml; it speaks Responses only',
    no_claude: 'Codex speaks Responses, which Claude models do not here.',
    lines: ({ gateway, model, project }) => [
      '# ~/.codex/config.toml: above every [table]',
      `model = "${model}"`,
      'model_provider = "svc"',
      '# By itself Codex asks for searches in each call, which a price without per_web_search refuses.',
      'web_search = "disabled"',
      '',
      '# and at the end of the file',
      '[model_providers.svc]',
      'name = "Gateway"',
      `base_url = "${gateway}/v1"`,
      `env_key = "${KEY}"`,
      'wire_api = "responses"',
      `http_headers = { "x-svc-tags" = "project-${project ?? 'codex'}" }`,
    ],
  },
  cursor: {
    words: 'in Settings > Models; its servers make the calls, so they must reach the gateway',
    has_no_headers: true,
    lines: ({ gateway, model }) => [
      `OpenAI API Key            the value of ${KEY}`,
      `Override OpenAI Base URL  ${chatBase({ gateway, model })}`,
      `Add model                 ${model}`,
    ],
  },
  opencode: {
    words: 'in opencode.json of the project or of ~/.config/opencode',
    lines: ({ gateway, model, project }) => [
      JSON.stringify(
        {
          $schema: 'https://opencode.ai/config.json',
          provider: {
            svc: {
              npm: '@ai-sdk/openai-compatible',
              name: 'Gateway',
              options: {
                baseURL: chatBase({ gateway, model }),
                apiKey: `{env:${KEY}}`,
                headers: { 'x-svc-tags': `project-${project ?? 'opencode'}` },
              },
              models: { [model]: {} },
            },
          },
          model: `svc/${model}`,
        },
        null,
        2,
      ),
    ],
  },
  aider: {
    words: 'in the shell that starts aider',
    has_no_headers: true,
    lines: ({ gateway, model }) => [
      `export OPENAI_API_BASE=${chatBase({ gateway, model })}`,
      `export OPENAI_API_KEY=$${KEY}`,
      `aider --model openai/${model}`,
    ],
  },
};

/** Claude models answer chat completions on the unified route alone; the console says the same. */
const isClaude = (model: string) => /claude/i.test(model);

/** Where chat completions are asked for a model, without their own path. */
function chatBase({ gateway, model }: Pick<Place, 'gateway' | 'model'>): string {
  return `${gateway}/v1${isClaude(model) ? '/unified' : ''}`;
}

const usage = `Usage: setup <client> --gateway https://gateway.example.com --model name [--project name]
Clients: ${Object.keys(clients).join(', ')}.`;

/** `npm run admin -- setup <client>`: what to write where, for a program that calls the gateway. */
export function runSetup(args: string[], print: (text: string) => void): number {
  const { client, place } = given(args);
  print(
    `# ${client.name}: ${client.words}. The key stands in ${KEY} of the environment, in no file.`,
  );
  for (const line of client.lines(place)) print(line);
  return 0;
}

function given(args: string[]) {
  const text = { type: 'string' } as const;
  const options = { gateway: text, model: text, project: text };
  let parsed: ReturnType<typeof parseArgs<{ options: typeof options; allowPositionals: true }>>;
  try {
    parsed = parseArgs({ args, options, allowPositionals: true });
  } catch (error) {
    throw new ConfigError(`${(error as Error).message}\n${usage}`);
  }
  const { gateway, model, project } = parsed.values;
  const found = clients[parsed.positionals[0] ?? ''];
  if (found === undefined || gateway === undefined || model === undefined)
    throw new ConfigError(usage);
  if (project !== undefined && found.has_no_headers)
    throw new ConfigError(
      `${parsed.positionals[0]} cannot send custom headers: its calls are told apart by their key. Leave --project out.`,
    );
  if (found.no_claude !== undefined && isClaude(model)) throw new ConfigError(found.no_claude);
  // Everything stands in lines of a shell or a file.
  for (const [name, value] of Object.entries({ model, project }))
    if (value !== undefined && !/^[\w./:@+-]{1,128}$/.test(value))
      throw new ConfigError(`--${name} ${value}: letters, digits and . _ / : @ + - only.`);
  return {
    client: { ...found, name: parsed.positionals[0] ?? '' },
    place: { gateway: originOf(gateway), model, project },
  };
}

function originOf(gateway: string): string {
  let url: URL | undefined;
  try {
    url = new URL(gateway);
  } catch {}
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.pathname !== '/')
    throw new ConfigError(
      `--gateway ${gateway}: say its origin, such as https://gateway.example.com, without /v1.`,
    );
  // A parser of addresses leaves what a shell would run.
  if (!/^https?:\/\/[\w.:[\]-]+$/.test(url.origin))
    throw new ConfigError(
      `--gateway ${gateway}: its host may have letters, digits, dots and hyphens only.`,
    );
  return url.origin;
}
