import { randomUUID } from 'node:crypto';
import { examplePlan } from '../../api/openapi/price-help';
import type { CallApi } from '../support/api';
import type { Change } from './changes-of-keys';

/** A plan of one new price, of a model of its own. */
export function planOfOne() {
  const rows = examplePlan.rows.map((row) => ({ ...row, model: `model ${randomUUID()}` }));
  return { plan: { ...examplePlan, rows } };
}

/** The changes of prices by imports. */
export function changesOfPrices(call: CallApi, platform: string): Record<string, Change> {
  const newImport = async () => {
    const made = await call('post', '/v1/admin/price-imports', {
      ...{ key: platform, body: planOfOne() },
    });
    expect(made.status).toBe(201);
    return made.body.id;
  };
  return {
    'post /v1/admin/price-imports': {
      body: planOfOne(),
      actions: ['price_import.created', 'price.created'],
    },
    'post /v1/admin/price-imports/:id/undo': {
      of: newImport,
      actions: ['price_import.changed', 'price.ended'],
    },
  };
}
