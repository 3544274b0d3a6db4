import type { IncomingHttpHeaders } from 'node:http';
import { RE2JS } from 're2js';
import type { RbacSettings } from '../config/policies';

export type Rbac = ReturnType<typeof createRbac>;

/** Decides by their headers which requests may pass. */
export function createRbac({ required_headers }: RbacSettings) {
  const required = required_headers.map(({ name, values, pattern }) => ({
    header: name.toLowerCase(),
    suits: suits(values, pattern),
  }));
  return {
    /** The rule that a request breaks. */
    broken(headers: IncomingHttpHeaders): string | undefined {
      const missing = required.find(({ header, suits: fits }) => {
        const value = headers[header];
        return value === undefined || !fits(Array.isArray(value) ? value.join(', ') : value);
      });
      return missing && `required_headers.${missing.header}`;
    },
  };
}

function suits(values: string[] | undefined, pattern: string | undefined) {
  if (values !== undefined) return (value: string) => values.includes(value);
  if (pattern === undefined) return (value: string) => value !== '';
  const compiled = RE2JS.compile(pattern);
  return (value: string) => compiled.matches(value);
}
