import { isClaude, type Models } from './models';

// How people's programs are told of a key. The gateway speaks the shapes of both official SDKs.

export interface Place {
  key: string;
  /** The gateway's origin, without a slash at its end. */
  gateway: string;
}

/** A text to copy, and what tells it from the program's others. */
export interface Text {
  name?: string;
  text: string;
}

interface Program {
  name: string;
  /** The wire that it speaks. */
  wire: keyof Models;
  texts: (place: Place, model: string) => Text[];
  /** What to know before it is tried. */
  note?: string;
}

const VARIABLE = 'SVC_GATEWAY_KEY';

export const programs: readonly Program[] = [
  {
    name: 'curl',
    wire: 'chat',
    texts: (place, model) => [
      {
        text: `curl ${chatUrl(place, model)}/chat/completions \\
  -H 'authorization: Bearer ${place.key}' \\
  -H 'content-type: application/json' \\
  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Say hello."}]}'`,
      },
    ],
  },
  {
    name: 'SDK',
    wire: 'chat',
    texts: (place, model) => [
      {
        text: `import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: '${chatUrl(place, model)}',
  apiKey: '${place.key}',
});
const answer = await client.chat.completions.create({
  model: '${model}',
  messages: [{ role: 'user', content: 'Say hello.' }],
});
console.log(answer.choices[0].message.content);`,
      },
    ],
  },
  {
    name: 'Claude Code',
    wire: 'messages',
    // The lines of `npm run admin -- setup claude-code`, with the key itself.
    texts: ({ gateway, key }, model) => [
      {
        text: `export ANTHROPIC_BASE_URL=${gateway}
export ANTHROPIC_AUTH_TOKEN=${key}
# Not needed here; two credentials side by side only confuse.
unset ANTHROPIC_API_KEY
export ANTHROPIC_MODEL=${model}
# Titles and summaries; any priced model of the Messages wire.
export ANTHROPIC_DEFAULT_HAIKU_MODEL=${model}
# What the calls of this shell are for, on the bill; each conversation is a session by itself.
export ANTHROPIC_CUSTOM_HEADERS="x-svc-tags: project-$(basename "$PWD" | tr -c "A-Za-z0-9\\n" -)"
claude`,
      },
    ],
  },
  {
    name: 'Codex',
    wire: 'responses',
    texts: ({ gateway, key }, model) => [
      {
        name: '~/.codex/config.toml',
        text: `# ~/.codex/config.toml: above every [table]
model = "${model}"
model_provider = "gateway"
web_search = "disabled"

# and at the end of the file
[model_providers.gateway]
name = "Gateway"
base_url = "${gateway}/v1"
env_key = "${VARIABLE}"
wire_api = "responses"`,
      },
      { name: 'the shell', text: `export ${VARIABLE}=${key}` },
    ],
  },
  {
    name: 'Cursor',
    wire: 'chat',
    texts: (place, model) => [
      {
        text: `Settings > Models > API Keys
OpenAI API Key:           ${place.key}
Override OpenAI Base URL: ${chatUrl(place, model)}
Add model:                ${model}`,
      },
    ],
    note: "Cursor's servers make the calls, so they must reach this address. Ask and chat work; Agent may not, for models whose requests Cursor sends in another shape.",
  },
];

/** Where chat completions are asked for a model, without their own path. */
function chatUrl({ gateway }: Place, model: string): string {
  return `${gateway}/v1${isClaude(model) ? '/unified' : ''}`;
}
