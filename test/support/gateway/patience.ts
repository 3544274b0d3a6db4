import { Batches } from '../../../gateway/control-plane/batches';
import type { ControlPlane } from '../../../gateway/control-plane/client';

/**
 * A busy machine is no control plane that is away. So ordinary calls wait longer than the product
 * does; what is asked again with the id of a reserve, alone; or nothing, if it is to be given up.
 */
export type Patience = 'always' | 'repeats' | 'never';

const PATIENCE_MS = 60_000;

/** What a control plane sends its requests with. */
export function batchesOf(control_plane: ControlPlane): Batches {
  const now = jest.spyOn(Batches.prototype, 'now');
  control_plane.now();
  const batches = now.mock.contexts[0] as Batches;
  now.mockRestore();
  return batches;
}

/** Waits for answers as long as the patience says. */
export function waitLonger(batches: Batches, patience: () => Patience): void {
  const send = batches.send.bind(batches);
  const request = batches.request.bind(batches);
  const reserved = new Set<string>();
  batches.send = (op, body, timeout_ms, is_urgent) => {
    const { request_id = '' } = body as { request_id?: string };
    const is_repeated = op === 'reserve' && reserved.has(request_id);
    if (op === 'reserve') reserved.add(request_id);
    const is_patient = patience() === 'always' || (patience() === 'repeats' && is_repeated);
    return send(op, body, is_patient ? Math.max(timeout_ms, PATIENCE_MS) : timeout_ms, is_urgent);
  };
  batches.request = (method, at, body, options = {}) => {
    const timeout_ms = Math.max(options.timeout_ms ?? 0, PATIENCE_MS);
    const given = patience() === 'always' ? { ...options, timeout_ms } : options;
    return request(method, at, body, given);
  };
}
