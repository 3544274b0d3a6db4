import { ask, Fault } from './client';
import type { Deployment } from './deployment';

/**
 * Both keys are what they must be, so that what fails below is the deployment's. Throws a Fault
 * with the variable of the one that is not.
 */
export async function keys({ apis, platform_key: key, probe }: Deployment): Promise<string> {
  const { status, body } = await ask('GET', `${apis[0]?.url}/v1/admin/gateways`, { key });
  if (status === 401 || status === 403)
    throw new Fault(
      `VERIFY_PLATFORM_KEY must be an access key with platform:admin: ${body?.error?.message}`,
    );
  const { org_id } = await probe.owner().catch((error) => {
    throw new Fault(`VERIFY_GATEWAY_KEY must be a gateway key of this API: ${error.message}`);
  });
  return `a platform admin's, and a gateway key of ${org_id}`;
}
