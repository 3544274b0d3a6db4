import { AppError } from '../errors';
import { newId } from '../ids';
import { type ListRequest, listOf, type Part } from '../lists';
import type { Page } from '../pages';
import { owner_of } from '../sealed';
import type { Secrets } from '../secrets';
import { type Db, many, one, owns } from '../sql';

/** A bucket that exports are written to. Its credentials are never shown. */
export interface Destination {
  id: string;
  /** Null: the platform's. */
  org_id: string | null;
  /** An origin: `https://s3.eu-central-1.amazonaws.com`. */
  endpoint: string;
  region: string;
  bucket: string;
  created_by: string;
  created_at: Date;
}

/** What an object store knows us by. */
export interface Credentials {
  access_key_id: string;
  secret_access_key: string;
}

/** A destination with what is needed to write to it. */
export type OpenDestination = Pick<Destination, 'endpoint' | 'region' | 'bucket'> & Credentials;

const columns = 'd.id, d.org_id, d.endpoint, d.region, d.bucket, d.created_by, d.created_at';

/** The destinations that new exports may go to. */
export function list(
  db: Db,
  org_id: string | null,
  request: ListRequest,
): Promise<Page<Destination> | Part<Destination>> {
  return listOf(
    db,
    {
      name: 'export destinations',
      select: `select ${columns}`,
      from: `from export_destinations d where ${owns('d.org_id', org_id)} and d.archived_at is null`,
      bindings: { org_id },
      id: 'd.id',
      created_at: 'd.created_at',
    },
    request,
  );
}

/** Keeps a destination, its credentials sealed. */
export async function create(
  trx: Db,
  secrets: Secrets,
  given: OpenDestination & { org_id: string | null; created_by: string },
): Promise<Destination> {
  const { access_key_id, secret_access_key, ...row } = given;
  const id = newId('dest');
  const credentials = {
    access_key_id: await secrets.seal(
      access_key_id,
      owner_of.export_destination(id, 'access_key_id'),
    ),
    secret_access_key: await secrets.seal(
      secret_access_key,
      owner_of.export_destination(id, 'secret_access_key'),
    ),
  };
  return one<Destination>(
    trx,
    `insert into export_destinations as d (id, org_id, endpoint, region, bucket, credentials, created_by)
     values (:id, :org_id, :endpoint, :region, :bucket, :credentials, :created_by) returning ${columns}`,
    { id, ...row, credentials: JSON.stringify(credentials) },
  );
}

/** Takes a destination out of use; exports that went there are kept. */
export function archive(
  trx: Db,
  id: string,
  org_id: string | null | undefined,
): Promise<Destination> {
  return one<Destination>(
    trx,
    `update export_destinations d set archived_at = clock_timestamp()
     where d.id = :id and (:is_any or d.org_id is not distinct from :org_id) and d.archived_at is null returning ${columns}`,
    { id, org_id: org_id ?? null, is_any: org_id === undefined },
    'No destination',
  );
}

/**
 * Throws `not_found` unless new exports of this organization, or of the platform, may go there. In
 * a transaction it stays so until that ends: whoever takes it out of use waits.
 */
export async function requireUsable(db: Db, id: string, org_id: string | null): Promise<void> {
  const found = await many(
    db,
    `select 1 from export_destinations d
     where d.id = :id and d.org_id is not distinct from :org_id and d.archived_at is null for share`,
    { id, org_id },
  );
  if (found.length === 0)
    throw new AppError('not_found', 'No destination was found under this id.', {
      param: 'destination_id',
    });
}

/** A destination with its credentials, also one that is out of use. */
export async function open(db: Db, secrets: Secrets, id: string): Promise<OpenDestination> {
  const { credentials, ...at } = await one<
    Pick<Destination, 'endpoint' | 'region' | 'bucket'> & { credentials: Credentials }
  >(
    db,
    'select d.endpoint, d.region, d.bucket, d.credentials from export_destinations d where d.id = :id',
    { id },
    'No destination',
  );
  const { access_key_id, secret_access_key } = credentials;
  return {
    ...at,
    access_key_id: await secrets.open(
      access_key_id,
      owner_of.export_destination(id, 'access_key_id'),
    ),
    secret_access_key: await secrets.open(
      secret_access_key,
      owner_of.export_destination(id, 'secret_access_key'),
    ),
  };
}
