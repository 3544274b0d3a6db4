import { z } from 'zod';
import { AppError } from '../../domain/errors';
import { requireText } from '../../domain/json';

/**
 * Path, query and body share one namespace; a name given twice is refused, so that none silently
 * wins.
 */
export function merge(...parts: Record<string, unknown>[]): Record<string, unknown> {
  const given = new Map<string, unknown>();
  for (const [name, value] of parts.flatMap((part) => Object.entries(part))) {
    // Assigned, this name would change the object's prototype and pass unseen.
    if (name === '__proto__')
      throw new AppError('unknown_field', `${name} is not a field of this request.`, {
        param: name,
      });
    if (given.has(name))
      throw new AppError('unknown_field', `${name} is given twice.`, { param: name });
    if (typeof value === 'string') requireText(name, value);
    given.set(name, value);
  }
  return Object.fromEntries(given);
}

/** Parses or throws 422 naming the first wrong field. */
export function parse<Schema extends z.ZodType>(schema: Schema, given: unknown): z.infer<Schema> {
  const stranger = unknownIn(schema, given);
  if (stranger !== undefined) throw unknownField(stranger);
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const { issues } = parsed.error;
  // A misspelt name is the cause, the field that is missing its effect.
  const issue = issues.find(({ code }) => code === 'unrecognized_keys') ?? issues[0];
  if (issue?.code === 'unrecognized_keys') {
    throw unknownField([...issue.path, issue.keys[0]].join('.'));
  }
  const param = issue?.path.join('.') ?? '';
  throw new AppError('invalid_field', `${param} ${issue?.message ?? 'is not valid'}.`, { param });
}

/** The first name that a strict schema does not know: further ones are not looked for. */
function unknownIn(schema: z.ZodType, given: unknown): string | undefined {
  if (!(schema instanceof z.ZodObject && schema.def.catchall instanceof z.ZodNever))
    return undefined;
  const { shape } = schema;
  for (const name in given as object) if (!Object.hasOwn(shape, name)) return name;
  return undefined;
}

function unknownField(param: string): AppError {
  return new AppError('unknown_field', `${param} is not a field of this request.`, { param });
}
