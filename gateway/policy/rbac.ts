import type { IncomingHttpHeaders } from 'node:http';
import { RE2JS } from 're2js';
import type { RbacSettings } from '../config/policies';

/** Which requests may pass, by their headers. */
export interface Rbac {
  /** The rule that a request breaks. */
  broken(headers: IncomingHttpHeaders): string | undefined;
}

export function createRbac({ required_headers }: RbacSettings): Rbac {
  const required = required_headers.map(({ name, values, pattern }) => ({
    header: name.toLowerCase(),
    suits: suits(values, pattern),
  }));
  return {
    broken(headers) {
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
