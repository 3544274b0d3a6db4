import { AwsSigner } from '../../../gateway/upstreams/credentials/aws';
import { signatureError } from '../../../sandbox/providers/sigv4';

// What is signed is what goes over the wire, whatever stands in a path or a query.

beforeAll(() => {
  Object.assign(process.env, { TEST_AWS_ID: 'AKIATEST', TEST_AWS_SECRET: 'aws-secret' });
});

const arn = 'arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/claude/x1';

test.each([
  '/model/a/invoke',
  `/model/${encodeURIComponent(arn)}/invoke-with-response-stream`,
  `/model/${encodeURIComponent("ü~*'()!+ %2F")}/invoke`,
  '/openai/v1/chat/completions?a=b+c&a=d&e=%2F&f',
])('%s has a signature that its receiver computes too', async (path) => {
  const now = new Date();
  const signer = new AwsSigner({
    auth: { access_key_id_env: 'TEST_AWS_ID', secret_access_key_env: 'TEST_AWS_SECRET' },
    ...{ region: 'eu-west-1', service: 'bedrock', host: 'localhost:8080', now: () => now },
  });
  const body = Buffer.from('{"a":"ü"}');
  const headers = await signer.headersFor({ method: 'POST', path, body });
  const keys = new Map([['AKIATEST', { secret: 'aws-secret' }]]);
  const visit = {
    method: 'POST',
    url: path,
    headers: { ...headers, host: 'localhost:8080' },
    body,
  };
  const signing = { keys, service: 'bedrock', region: 'eu-west-1', now };
  expect(signatureError(visit, signing)).toBeUndefined();
});
