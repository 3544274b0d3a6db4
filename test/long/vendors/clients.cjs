// What the vendors' own clients say to the sandbox of their providers, as lines of JSON.
const { AnthropicBedrock } = require('@anthropic-ai/bedrock-sdk');
const { AnthropicVertex } = require('@anthropic-ai/vertex-sdk');
const {
  BedrockRuntimeClient,
  ConverseCommand,
  ConverseStreamCommand,
} = require('@aws-sdk/client-bedrock-runtime');
const { GoogleGenAI } = require('@google/genai');
const { NodeHttpHandler } = require('@smithy/node-http-handler');

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

const tool = { type: 'object', properties: { a: { type: 'string' } } };

/** Bedrock's Converse, asked as AWS's own client asks. */
async function converse() {
  const client = new BedrockRuntimeClient({
    region: 'eu-west-1',
    endpoint: `${ORIGIN}/bedrock`,
    credentials: { accessKeyId: 'AKIATEST', secretAccessKey: 'aws-secret' },
    maxAttempts: 1,
    // Its own choice is HTTP/2, which the sandbox does not speak.
    requestHandler: new NodeHttpHandler(),
  });
  const asked = (text, more = {}) => ({
    modelId: 'amazon.nova-pro-v1:0',
    messages: [{ role: 'user', content: [{ text }] }],
    inferenceConfig: { maxTokens: 64 },
    ...more,
  });
  const whole = await client.send(new ConverseCommand(asked('Hello')));
  const toolSpec = { name: 'f', inputSchema: { json: tool } };
  const toolConfig = { tools: [{ toolSpec }], toolChoice: { any: {} } };
  const called = await client.send(new ConverseCommand(asked('Call', { toolConfig })));
  const streamed = await client.send(new ConverseStreamCommand(asked('Hello')));
  const events = [];
  for await (const event of streamed.stream) events.push(...Object.keys(event));
  const failing = asked('Hi [[fault:exception after=2 ]]');
  const broken = await failureOf(async () => {
    const { stream } = await client.send(new ConverseStreamCommand(failing));
    for await (const _ of stream);
  });
  const refused = await failureOf(() =>
    client.send(new ConverseCommand(asked('Hi [[fault:throttled]]'))),
  );
  return {
    text: whole.output.message.content[0].text,
    call: called.output.message.content[0].toolUse,
    usage: whole.usage,
    events,
    broken,
    refused,
  };
}

/** Gemini on its own wire, asked as Google's own client asks. */
async function gemini() {
  const ai = new GoogleGenAI({
    apiKey: 'upstream-secret',
    httpOptions: { baseUrl: `${ORIGIN}/gemini` },
  });
  const asked = (text, more = {}) => ({
    model: 'gemini-3.8-flash',
    contents: [{ role: 'user', parts: [{ text }] }],
    config: { maxOutputTokens: 64, ...more },
  });
  const whole = await ai.models.generateContent(asked('Hello'));
  const declared = { functionDeclarations: [{ name: 'f', parametersJsonSchema: tool }] };
  const toolConfig = { functionCallingConfig: { mode: 'ANY' } };
  const called = await ai.models.generateContent(asked('Call', { tools: [declared], toolConfig }));
  let text = '';
  let finish;
  for await (const chunk of await ai.models.generateContentStream(asked('Hello'))) {
    text += chunk.text ?? '';
    finish = chunk.candidates?.[0]?.finishReason ?? finish;
  }
  const refused = await failureOf(() =>
    ai.models.generateContent(asked('Hi [[fault:error status=429]]')),
  );
  const { embeddings } = await ai.models.embedContent({
    model: 'gemini-3.8-flash',
    contents: ['one', 'two'],
    config: { outputDimensionality: 8 },
  });
  const usage = whole.usageMetadata;
  return {
    text: whole.text,
    call: called.functionCalls[0],
    usage,
    streamed: text,
    finish,
    refused,
    vectors: embeddings.map(({ values }) => values.length),
  };
}

async function failureOf(ask) {
  try {
    await ask();
  } catch (error) {
    return { name: error.name, status: error.status, message: String(error.message) };
  }
  return undefined;
}

async function main() {
  for (const [name, ask] of Object.entries({ converse, gemini }))
    process.stdout.write(`${JSON.stringify({ name, ...(await ask()) })}\n`);
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
