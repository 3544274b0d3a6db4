import { Button, Code, CopyButton, Stack, Tabs } from '@mantine/core';
import { addresses } from '../base/addresses';

// How people's programs are told of a key. The gateway speaks the shapes of both official SDKs.

const snippets: readonly { name: string; text: (key: string, model: string) => string }[] = [
  {
    name: 'curl',
    text: (key, model) => `curl ${addresses.gateway_url}/v1/chat/completions \\
  -H 'authorization: Bearer ${key}' \\
  -H 'content-type: application/json' \\
  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Say hello."}]}'`,
  },
  {
    name: 'SDK',
    text: (key, model) => `import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: '${addresses.gateway_url}/v1',
  apiKey: '${key}',
});
const answer = await client.chat.completions.create({
  model: '${model}',
  messages: [{ role: 'user', content: 'Say hello.' }],
});
console.log(answer.choices[0].message.content);`,
  },
  {
    name: 'Claude Code',
    text: (key) => `export ANTHROPIC_BASE_URL=${addresses.gateway_url}
export ANTHROPIC_AUTH_TOKEN=${key}
claude`,
  },
  {
    name: 'Codex',
    text: (key, model) => `# ~/.codex/config.toml
model = "${model}"
model_provider = "gateway"

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

/** How to use a key, for each kind of program. */
export function Snippets({ value, model }: { value: string; model: string }) {
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
              {text(value, model)}
            </Code>
            <CopyButton value={text(value, model)}>
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
