import { readFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { root } from '../../../runtime/root';
import type { Document } from './narrower';

/** The description that 1.4 was released with, without its words for people. */
export function released(): Document {
  const file = path.join(root, 'test/api/openapi/released-1.4.json.gz');
  return JSON.parse(gunzipSync(readFileSync(file)).toString());
}
