import path from 'node:path';
import type { PaymentPlaces } from '../demo/payment-seed';
import { authorityFiles, ensureAuthority } from '../payments/a/authority';
import { localUrl, type Ports, type StartOptions } from '../processes/addresses';
import { privateFolder } from '../processes/data-directory';
import type { Stack } from '../processes/stack';
import type { Kept } from '../processes/supervisor';
import { isOk, serverProgram } from './node-programs';

interface PaymentContext {
  options: StartOptions;
  ports: Ports;
  stack: Stack;
}

export function paymentPlaces(ports: Ports): PaymentPlaces {
  return {
    urls: {
      payment_provider_a: localUrl(ports.payment_a),
      payment_provider_b: localUrl(ports.payment_b),
    },
    shop_url: localUrl(ports.shop),
  };
}

function folderOf({ DATA_DIR }: StartOptions): string {
  return privateFolder(path.resolve(DATA_DIR, 'payments'));
}

/** Files of the authorities that APIs trust with webhooks: the sandbox's, and the named ones. */
export async function paymentAuthorities(options: StartOptions): Promise<string> {
  const folder = folderOf(options);
  await ensureAuthority(folder);
  const named = options.PAYMENT_CA_FILES.map((file) => path.resolve(file));
  return [authorityFiles(folder).cert_file, ...named].join(',');
}

/** Both sandbox providers and the buyer's page. Payments are kept in the data directory. */
export async function startPayments(
  { options, ports, stack }: PaymentContext,
  shop_key: string,
): Promise<Kept> {
  await ensureAuthority(folderOf(options));
  const [api_port] = ports.apis;
  const api_url = localUrl(api_port as number);
  const folder = folderOf(options);
  const file = (name: string) => path.join(folder, `${name}.jsonl`);
  const { urls, shop_url } = paymentPlaces(ports);
  const program = serverProgram({
    name: 'sandbox-payments',
    script: 'sandbox/payments/main.ts',
    env: {
      SANDBOX_PAYMENT_A_PORT: String(ports.payment_a),
      SANDBOX_PAYMENT_A_WEBHOOK_URL: `${api_url}/v1/payments/webhooks/payment_provider_a`,
      SANDBOX_PAYMENT_A_FILE: file('provider-a'),
      SANDBOX_PAYMENT_A_AUTHORITY: folder,
      SANDBOX_PAYMENT_B_PORT: String(ports.payment_b),
      SANDBOX_PAYMENT_B_WEBHOOK_URL: `${api_url}/v1/payments/webhooks/payment_provider_b`,
      SANDBOX_PAYMENT_B_FILE: file('provider-b'),
      SANDBOX_SHOP_PORT: String(ports.shop),
      SANDBOX_SHOP_API_URL: api_url,
      SANDBOX_SHOP_KEY: shop_key,
    },
    ready_url: `${urls.payment_provider_a}/sandbox/webhooks`,
  });
  const others = [`${urls.payment_provider_b}/sandbox/webhooks`, `${shop_url}/return`];
  const isReady = async () => {
    const answers = await Promise.all([program.isReady(), ...others.map(isOk)]);
    return answers.every(Boolean);
  };
  return stack.run('services', { ...program, isReady });
}
