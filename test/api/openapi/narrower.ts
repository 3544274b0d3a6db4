// What a client of an earlier version of an API would miss in a later one, by their descriptions.

type Json = Record<string, unknown>;

interface Operation {
  parameters?: { name: string; in: string; required?: boolean; schema: Json }[];
  requestBody?: { content: Record<string, { schema: Json }> };
  responses: Record<string, { content?: Record<string, { schema: Json }> }>;
}

export interface Document {
  paths: Record<string, Record<string, Operation>>;
}

/** Each thing that is gone or narrower in `later`, in words with its place; empty if none is. */
export function narrowed(earlier: Document, later: Document): string[] {
  return Object.entries(earlier.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) => {
      const at = `${method.toUpperCase()} ${path}`;
      const now = later.paths[path]?.[method];
      return now === undefined ? [`${at} is gone`] : narrowedOperation(at, operation, now);
    }),
  );
}

function narrowedOperation(at: string, before: Operation, now: Operation): string[] {
  const keyOf = ({ name, in: place }: { name: string; in: string }) => `${place} ${name}`;
  const known = new Map((now.parameters ?? []).map((one) => [keyOf(one), one]));
  const had = new Set((before.parameters ?? []).map(keyOf));
  return [
    ...(before.parameters ?? []).flatMap((one) => {
      const still = known.get(keyOf(one));
      if (still === undefined) return [`${at}: the parameter ${one.name} is gone`];
      return [
        ...(still.required && !one.required ? [`${at}: ${one.name} is required now`] : []),
        ...narrowedInput(`${at}: ${one.name}`, one.schema, still.schema),
      ];
    }),
    ...[...known.values()]
      .filter((one) => one.required && !had.has(keyOf(one)))
      .map(({ name }) => `${at}: the new parameter ${name} is required`),
    ...Object.entries(before.requestBody?.content ?? {}).flatMap(([type, { schema }]) => {
      const still = now.requestBody?.content[type];
      return still === undefined
        ? [`${at}: a body of ${type} is not taken any more`]
        : narrowedInput(`${at}: body`, schema, still.schema);
    }),
    ...Object.entries(before.responses).flatMap(([status, { content }]) => {
      const still = now.responses[status];
      if (still === undefined) return [`${at}: the answer ${status} is gone`];
      return Object.entries(content ?? {}).flatMap(([type, { schema }]) => {
        const now_schema = still.content?.[type]?.schema;
        return now_schema === undefined
          ? [`${at}: the answer ${status} of ${type} is gone`]
          : narrowedOutput(`${at}: ${status}`, schema, now_schema);
      });
    }),
  ];
}

/** The kinds of values that a schema describes, without unions: nothing else has alternatives. */
function alternatives(schema: Json): Json[] {
  const union = (schema.anyOf ?? schema.oneOf) as Json[] | undefined;
  if (union) return union.flatMap(alternatives);
  const { type } = schema;
  return Array.isArray(type) ? type.map((one) => ({ ...schema, type: one })) : [schema];
}

const typeOf = ({ type, const: only, enum: values }: Json): string => {
  if (typeof type === 'string') return type === 'integer' ? 'number' : type;
  const [value] = (values as unknown[] | undefined) ?? [only];
  return value === undefined ? 'any' : value === null ? 'null' : typeof value;
};

const valuesOf = ({ enum: values, const: only }: Json): unknown[] | undefined =>
  (values as unknown[] | undefined) ?? (only === undefined ? undefined : [only]);

// Of each bound, whether a later one lets as much pass.
const bounds: Record<string, (before: number | undefined, now: number) => boolean> = {
  maximum: (before, now) => before !== undefined && before <= now,
  exclusiveMaximum: (before, now) => before !== undefined && before <= now,
  maxLength: (before, now) => before !== undefined && before <= now,
  maxItems: (before, now) => before !== undefined && before <= now,
  minimum: (before, now) => before !== undefined && before >= now,
  exclusiveMinimum: (before, now) => before !== undefined && before >= now,
  minLength: (before, now) => before !== undefined && before >= now,
  minItems: (before, now) => before !== undefined && before >= now,
};

/** What an earlier client may send, and a later API would refuse. */
function narrowedInput(at: string, before: Json, now: Json): string[] {
  return alternatives(before).flatMap((one) => {
    const tries = alternatives(now)
      .filter((other) => ['any', typeOf(one)].includes(typeOf(other)))
      .map((other) => narrowedValue(at, one, other));
    if (tries.length === 0) return [`${at}: ${typeOf(one)} is not taken any more`];
    return tries.sort((a, b) => a.length - b.length)[0] as string[];
  });
}

function narrowedValue(at: string, before: Json, now: Json): string[] {
  const [had, has] = [valuesOf(before), valuesOf(now)];
  const gone = has && (had ? had.filter((value) => !has.includes(value)) : ['any other value']);
  const properties = (now.properties ?? {}) as Record<string, Json>;
  const earlier = (before.properties ?? {}) as Record<string, Json>;
  const required = (before.required ?? []) as string[];
  return [
    ...(gone?.length ? [`${at}: ${gone.join(', ')} is not taken any more`] : []),
    ...Object.entries(bounds)
      .filter(([bound]) => now[bound] !== undefined)
      .filter(([bound, lets]) => !lets(before[bound] as number | undefined, now[bound] as number))
      .map(([bound]) => `${at}: ${bound} is ${now[bound]}, and was ${before[bound] ?? 'none'}`),
    ...(now.pattern !== undefined && now.pattern !== before.pattern
      ? [`${at}: the pattern ${now.pattern} is new`]
      : []),
    ...((now.required ?? []) as string[])
      .filter((name) => !required.includes(name))
      .map((name) => `${at}: ${name} is required now`),
    ...Object.entries(earlier).flatMap(([name, schema]) => {
      const still = properties[name];
      if (still !== undefined) return narrowedInput(`${at}.${name}`, schema, still);
      return now.additionalProperties === false ? [`${at}: ${name} is not taken any more`] : [];
    }),
    ...(before.items && now.items
      ? narrowedInput(`${at}[]`, before.items as Json, now.items as Json)
      : []),
  ];
}

/** What an earlier client reads, and a later API would not say. */
function narrowedOutput(at: string, before: Json, now: Json): string[] {
  return alternatives(before).flatMap((one) => {
    const tries = alternatives(now)
      .filter((other) => typeOf(other) === typeOf(one))
      .map((other) => narrowedMembers(at, one, other));
    // A value that is said no more, such as null, leaves nothing out that a client waits for.
    if (tries.length === 0) return typeOf(one) === 'null' ? [] : [`${at}: ${typeOf(one)} is gone`];
    return tries.sort((a, b) => a.length - b.length)[0] as string[];
  });
}

function narrowedMembers(at: string, before: Json, now: Json): string[] {
  const properties = (now.properties ?? {}) as Record<string, Json>;
  const required = (now.required ?? []) as string[];
  return [
    ...Object.entries((before.properties ?? {}) as Record<string, Json>).flatMap(
      ([name, schema]) => {
        const still = properties[name];
        if (still === undefined) return [`${at}: ${name} is gone`];
        return narrowedOutput(`${at}.${name}`, schema, still);
      },
    ),
    ...((before.required ?? []) as string[])
      .filter((name) => name in properties && !required.includes(name))
      .map((name) => `${at}: ${name} may be absent now`),
    ...(before.items && now.items
      ? narrowedOutput(`${at}[]`, before.items as Json, now.items as Json)
      : []),
  ];
}
