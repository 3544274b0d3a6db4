// What the vendors' own clients say to the sandbox of their providers, as lines of JSON.
const { AnthropicBedrock } = require('@anthropic-ai/bedrock-sdk');
const { AnthropicVertex } = require('@anthropic-ai/vertex-sdk');

const { ORIGIN, TOKEN } = process.env;
const body = { max_tokens: 64, messages: [{ role: 'user', content: 'Hello' }] };
const keys = { awsAccessKey: 'AKIATEST', awsSecretKey: 'aws-secret', apiKey: null };
const region = { awsRegion: 'eu-west-1', maxRetries: 0 };
const bedrock = (given) =>
  new AnthropicBedrock({ baseURL: `${ORIGIN}/bedrock`, ...region, ...given });
const arn = 'arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/claude/x1';

const clients = {
  'bedrock, signed': [bedrock(keys), 'eu.anthropic.claude-opus-5-5-v1:0'],
  'bedrock, an ARN': [bedrock(keys), arn],
  'bedrock, by its key': [bedrock({ apiKey: 'bedrock-key' }), 'eu.anthropic.claude-opus-5-5-v1:0'],
  'bedrock, a wrong key': [bedrock({ ...keys, awsSecretKey: 'another' }), 'eu.anthropic.claude:0'],
  vertex: [
    new AnthropicVertex({
      baseURL: `${ORIGIN}/vertex/v1`,
      projectId: 'acme-1',
      region: 'global',
      authClient: {
        projectId: 'acme-1',
        getRequestHeaders: async () => ({ authorization: `Bearer ${TOKEN}` }),
      },
      maxRetries: 0,
    }),
    'claude-opus-5-5@20260101',
  ],
};

async function main() {
  for (const [name, [client, model]] of Object.entries(clients)) {
    const told = { name };
    try {
      const whole = await client.messages.create({ model, ...body });
      told.text = whole.content[0].text;
      told.events = [];
      const stream = await client.messages.create({ model, ...body, stream: true });
      for await (const event of stream) told.events.push(event.type);
      const failing = {
        ...body,
        messages: [{ role: 'user', content: 'Hi [[fault:exception after=4 ]]' }],
      };
      if (name.startsWith('bedrock')) {
        const broken = await client.messages.create({ model, ...failing, stream: true });
        try {
          for await (const _ of broken);
        } catch (error) {
          told.broken = String(error.message);
        }
      }
    } catch (error) {
      told.status = error.status;
      told.error = String(error.message);
    }
    process.stdout.write(`${JSON.stringify(told)}\n`);
  }
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
