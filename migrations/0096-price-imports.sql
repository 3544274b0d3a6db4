-- Prices say where they come from. A plan that was made from catalogs of prices is taken over as one import, which can be undone.

create table price_imports (
  id text primary key default new_id('pimp'),
  created_at timestamptz not null,
  actor text not null,
  -- [{catalog, version, sha256, dated}]: what the plan was made from.
  sources jsonb not null,
  plan_sha256 text not null,
  -- By provider: what its amounts were multiplied with.
  factors jsonb not null,
  -- `provider/model`: the rows that somebody said yes to by name, and those that cost nothing.
  taken jsonb not null,
  free jsonb not null,
  undone_at timestamptz,
  undone_by text
);

alter table model_prices
  -- `hand`: a person wrote it, and no import touches it unless told to.
  add column source text not null default 'hand' check (source in ('hand', 'import')),
  add column import_id text references price_imports,
  -- The catalog of an imported price, with its version and day.
  add column catalog text,
  -- Whose price an import took, and what it multiplied it with; the next import goes on with both.
  add column seller text,
  add column price_factor numeric,
  -- The version that was in force when an import took its place: what undo brings back; null if none was.
  add column replaced_version_id text,
  -- The import that ended this version before it began.
  add column retired_by_import_id text references price_imports,
  -- What a catalog knows of the model beside its price: context_length, modalities, deprecation_date and others.
  add column metadata jsonb;
create index model_prices_import on model_prices (import_id) where import_id is not null;
create trigger price_imports_record after insert or update on price_imports
for each row execute function record_change('price_import', 'id');
