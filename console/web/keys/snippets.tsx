import { Button, Code, CopyButton, Stack, Tabs } from '@mantine/core';
import { addresses } from '../base/addresses';
import { isClaude, type Models } from './models';

// How people's programs are told of a key. The gateway speaks the shapes of both official SDKs.

const snippets: readonly { name: string; text: (key: string, models: Models) => string }[] = [
  {
    name: 'curl',
    text: (key, { chat }) => `curl ${chatUrl(chat)}/chat/completions \\
  -H 'authorization: Bearer ${key}' \\
  -H 'content-type: application/json' \\
  -d '{"model": "${chat}", "messages": [{"role": "user", "content": "Say hello."}]}'`,
  },
  {
    name: 'SDK',
    text: (key, { chat }) => `import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: '${chatUrl(chat)}',
  apiKey: '${key}',
});
const answer = await client.chat.completions.create({
  model: '${chat}',
  messages: [{ role: 'user', content: 'Say hello.' }],
});
console.log(answer.choices[0].message.content);`,
  },
  {
    name: 'Claude Code',
    text: (key, { messages }) => `export ANTHROPIC_BASE_URL=${addresses.gateway_url}
export ANTHROPIC_AUTH_TOKEN=${key}
export ANTHROPIC_MODEL=${messages}
claude`,
  },
  {
    name: 'Codex',
    text: (key, { chat }) => `# ~/.codex/config.toml
model = "${chat}"
model_provider = "gateway"
web_search = "disabled"

[model_providers.gateway]
name = "Gateway"
base_url = "${addresses.gateway_url}/v1"
env_key = "SVC_GATEWAY_KEY"
wire_api = "responses"

# in the shell
export SVC_GATEWAY_KEY=${key}`,
  },
  {
    name: 'Cursor',
    text: (key) => `Settings > Models > API Keys
OpenAI API Key:           ${key}
Override OpenAI Base URL: ${addresses.gateway_url}/v1

Cursor's servers make the calls, so they must reach this address.`,
  },
];

/** Where chat completions are asked for a model, without their own path. */
function chatUrl(model: string): string {
  return `${addresses.gateway_url}/v1${isClaude(model) ? '/unified' : ''}`;
}

/** How to use a key, for each kind of program. */
export function Snippets({ value, models }: { value: string; models: Models }) {
  return (
    <Tabs defaultValue="curl" keepMounted={false}>
      <Tabs.List>
        {snippets.map(({ name }) => (
          <Tabs.Tab key={name} value={name}>
            {name}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {snippets.map(({ name, text }) => (
        <Tabs.Panel key={name} value={name} pt="xs">
          <Stack gap="xs">
            <Code block tabIndex={0} aria-label={`How to use it with ${name}`}>
              {text(value, models)}
            </Code>
            <CopyButton value={text(value, models)}>
              {({ copied, copy }) => (
                <Button size="xs" variant="default" onClick={copy}>
                  {copied ? 'Copied' : 'Copy'}
                </Button>
              )}
            </CopyButton>
          </Stack>
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}
