import type { Knex } from 'knex';

// What the schema consists of, read off PostgreSQL's catalogue. Left out is what differs from one
// database to the next: daily partitions of events, owners, and the tables in which knex notes the
// migrations.

export interface Column {
  table: string;
  name: string;
  type: string;
  not_null: boolean;
  default: string | null;
  is_identity: boolean;
}

export interface Constraint {
  table: string;
  name: string;
  kind: 'p' | 'f' | 'u' | 'c';
  /** The only column that it is about, if there is one. */
  column: string | null;
  text: string;
}

export interface Table {
  name: string;
  options: string[];
  partition_key: string | null;
  partition_of: string | null;
}

export interface Type {
  name: string;
  members: { name: string; type: string }[];
}

export interface StoredFunction {
  name: string;
  given: string;
  result: string;
  language: string;
  volatility: 'i' | 's' | 'v';
  settings: string[];
  text: string;
  /** What a call costs, by PostgreSQL's reckoning: 100 unless somebody says otherwise. */
  cost: number;
  /** A column's default or an index calls it, so it stands before the tables. */
  is_default: boolean;
}

/** An index or a trigger by its own name, with the table or function that it belongs to. */
export interface Attached {
  name: string;
  of: string;
  text: string;
}

export interface Catalogue {
  tables: Table[];
  columns: Column[];
  constraints: Constraint[];
  indexes: Attached[];
  types: Type[];
  functions: StoredFunction[];
  triggers: Attached[];
}

export async function readCatalogue(db: Knex): Promise<Catalogue> {
  const rows = async <Row>(sql: string) => (await db.raw<{ rows: Row[] }>(sql)).rows;
  const others = await rows<{ name: string }>(otherObjects);
  if (others.length > 0)
    throw new Error(
      `schema.sql cannot show ${others.map(({ name }) => name).join(', ')} yet: teach migrations/schema.ts this kind of object.`,
    );
  return {
    tables: await rows(tables),
    columns: await rows(columns),
    constraints: await rows(constraints),
    indexes: await rows(indexes),
    types: await rows(types),
    functions: await rows(functions),
    triggers: await rows(triggers),
  };
}

const shown = `c.relnamespace = 'public'::regnamespace and c.relname !~ '^knex_' and c.relname !~ '^events_[0-9]{8}'`;

const tables = `
  select c.relname as name, coalesce(c.reloptions, '{}') as options, pg_get_partkeydef(c.oid) as partition_key,
    (select i.inhparent::regclass::text from pg_inherits i where i.inhrelid = c.oid) as partition_of
  from pg_class c where ${shown} and c.relkind in ('r', 'p')`;

const columns = `
  select c.relname as table, quote_ident(a.attname) as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull as not_null,
    pg_get_expr(d.adbin, d.adrelid, true) as default, a.attidentity <> '' as is_identity
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  where ${shown} and c.relkind in ('r', 'p') order by c.relname, a.attnum`;

// From version 18 on, PostgreSQL also keeps each "not null" as a constraint. A new table has no
// rows that a constraint may have left out.
const constraints = `
  select c.relname as table, o.conname as name, o.contype as kind,
    regexp_replace(pg_get_constraintdef(o.oid, true), ' NOT VALID$', '') as text,
    case cardinality(o.conkey) when 1 then
      (select quote_ident(a.attname) from pg_attribute a where a.attrelid = c.oid and a.attnum = o.conkey[1]) end as column
  from pg_class c join pg_constraint o on o.conrelid = c.oid and o.contype in ('p', 'f', 'u', 'c')
  where ${shown} order by c.relname, position(o.contype::text in 'pufc'), o.conname`;

const indexes = `
  select c.relname as name, t.relname as of, pg_get_indexdef(c.oid, 0, true) as text
  from pg_class c join pg_index i on i.indexrelid = c.oid join pg_class t on t.oid = i.indrelid
  where ${shown} and not c.relispartition and not exists (select 1 from pg_constraint o where o.conindid = c.oid)
  order by c.relname`;

const types = `
  select c.relname as name, (
    select jsonb_agg(jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod)) order by a.attnum)
    from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as members
  from pg_class c where ${shown} and c.relkind = 'c'`;

const functions = `
  select p.proname as name, pg_get_function_arguments(p.oid) as given, pg_get_function_result(p.oid) as result,
    l.lanname as language, p.provolatile as volatility, coalesce(p.proconfig, '{}') as settings, p.prosrc as text,
    p.procost::float as cost, exists (select 1 from pg_depend d where d.refclassid = 'pg_proc'::regclass and d.refobjid = p.oid
      and (d.classid = 'pg_attrdef'::regclass or exists (select 1 from pg_index i where i.indexrelid = d.objid))) as is_default
  from pg_proc p join pg_language l on l.oid = p.prolang
  where p.pronamespace = 'public'::regnamespace`;

const triggers = `
  select t.tgname as name, p.proname as of, pg_get_triggerdef(t.oid, true) as text
  from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid
  where ${shown} and not t.tgisinternal and t.tgparentid = 0 order by t.tgname`;

const otherObjects = `
  select c.relname as name from pg_class c
  where ${shown} and (c.relkind in ('v', 'm', 'f') or c.relkind = 'S' and not exists (
    select 1 from pg_depend d where d.objid = c.oid and d.deptype in ('a', 'i')))
  union all
  select t.typname from pg_type t
  where t.typnamespace = 'public'::regnamespace and t.typtype in ('d', 'e', 'r')
  union all
  select p.proname from pg_proc p where p.pronamespace = 'public'::regnamespace and (p.prokind <> 'f' or p.proisstrict
    or p.prosecdef or p.proparallel <> 'u' or p.proleakproof)
  union all
  select e.extname from pg_extension e where e.extname <> 'plpgsql'
  union all
  select o.polname from pg_policy o`;
