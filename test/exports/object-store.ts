import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listen } from '../../runtime/listen';

// An object store on this machine, as far as exports use one: the wire of S3, whole objects and
// those of several parts. It checks who asks by the name of the key, not by the signature.

export interface ObjectStore {
  url: string;
  objects: Map<string, Buffer>;
  /** Uploads of several parts that were begun and not ended. */
  uploads: Map<string, Map<number, Buffer>>;
  /** Called before each request; what it returns is answered in place of the store's own words. */
  trouble: (request: {
    method: string;
    key: string;
    query: URLSearchParams;
  }) => Refused | undefined;
  /** After the object was kept: the answer that its sender gets in place of 200. */
  trouble_after: (request: { method: string; key: string }) => Refused | undefined;
  close: () => Promise<void>;
}

export interface Refused {
  status: number;
  code: string;
}

/** Fewer than are asked for: a store may answer any number. */
const UPLOADS_PAGE = 3;

export const store_key = { access_key_id: 'AKIATEST', secret_access_key: 'secret-of-test' };

/** An object store with one bucket, on a free port. */
export async function openObjectStore(bucket: string): Promise<ObjectStore> {
  const objects = new Map<string, Buffer>();
  const uploads = new Map<string, Map<number, Buffer>>();
  const key_of = new Map<string, string>();
  const server = createServer((req, res) => {
    answer(req, res).catch((error) => refuse(res, { status: 500, code: String(error) }));
  });
  const store: ObjectStore = {
    url: `http://127.0.0.1:${await listen(server, 0)}`,
    objects,
    uploads,
    trouble: () => undefined,
    trouble_after: () => undefined,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { pathname, searchParams: query } = new URL(req.url ?? '/', store.url);
    const [, asked = '', ...rest] = decodeURIComponent(pathname).split('/');
    const key = rest.join('/');
    const method = req.method ?? 'GET';
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const refused = store.trouble({ method, key, query }) ?? refusalOf(req, query, asked);
    if (refused !== undefined) return refuse(res, refused);
    if (method === 'PUT') return put(res, { key, query, body });
    if (method === 'POST') return post(res, { key, query, body });
    if (method === 'DELETE') {
      const id = query.get('uploadId');
      if (id === null) objects.delete(key);
      else uploads.delete(id);
      res.writeHead(204).end();
      return;
    }
    if (query.has('uploads')) return listUploads(res, query);
    if (key === '') return list(res, query.get('prefix') ?? '');
    const found = objects.get(key);
    if (found === undefined) return refuse(res, { status: 404, code: 'NoSuchKey' });
    res.writeHead(200, { 'content-length': found.length }).end(found);
  }

  function refusalOf(req: IncomingMessage, query: URLSearchParams, asked: string) {
    const named = query.get('X-Amz-Credential') ?? req.headers.authorization ?? '';
    if (!named.includes(store_key.access_key_id))
      return { status: 403, code: 'InvalidAccessKeyId' };
    return asked === bucket ? undefined : { status: 404, code: 'NoSuchBucket' };
  }

  interface Sent {
    key: string;
    query: URLSearchParams;
    body: Buffer;
  }

  function put(res: ServerResponse, { key, query, body }: Sent) {
    const id = query.get('uploadId');
    if (id === null) objects.set(key, body);
    else uploads.get(id)?.set(Number(query.get('partNumber')), body);
    const refused = store.trouble_after({ method: 'PUT', key });
    if (refused !== undefined) return refuse(res, refused);
    res.writeHead(200, { etag: `"${createHash('md5').update(body).digest('hex')}"` }).end();
  }

  function post(res: ServerResponse, { key, query, body }: Sent) {
    if (query.has('delete')) {
      for (const [, name = ''] of body.toString().matchAll(/<Key>([^<]+)<\/Key>/g))
        objects.delete(name);
      return xml(res, '<DeleteResult/>');
    }
    if (query.has('uploads')) {
      const id = randomUUID();
      uploads.set(id, new Map());
      key_of.set(id, key);
      return xml(
        res,
        `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
      );
    }
    const id = query.get('uploadId') ?? '';
    const parts = [...(uploads.get(id) ?? [])].sort(([a], [b]) => a - b).map(([, part]) => part);
    objects.set(key, Buffer.concat(parts));
    uploads.delete(id);
    const refused = store.trouble_after({ method: 'POST', key });
    if (refused !== undefined) return refuse(res, refused);
    return xml(
      res,
      '<CompleteMultipartUploadResult><ETag>"whole"</ETag></CompleteMultipartUploadResult>',
    );
  }

  function list(res: ServerResponse, prefix: string): void {
    const keys = [...objects.keys()].filter((name) => name.startsWith(prefix)).slice(0, 1_000);
    const contents = keys.map((name) => `<Contents><Key>${name}</Key></Contents>`).join('');
    xml(res, `<ListBucketResult>${contents}</ListBucketResult>`);
  }

  function listUploads(res: ServerResponse, query: URLSearchParams): void {
    const prefix = query.get('prefix') ?? '';
    const after = query.get('upload-id-marker') ?? '';
    const found = [...uploads.keys()].sort().filter((id) => key_of.get(id)?.startsWith(prefix));
    const page = found.filter((id) => id > after).slice(0, UPLOADS_PAGE);
    const named = page.map(
      (id) => `<Upload><Key>${key_of.get(id)}</Key><UploadId>${id}</UploadId></Upload>`,
    );
    const last = page.at(-1) ?? '';
    const is_truncated = last !== '' && last !== found.at(-1);
    const next =
      `<IsTruncated>${is_truncated}</IsTruncated><NextKeyMarker>${key_of.get(last) ?? ''}</NextKeyMarker>` +
      `<NextUploadIdMarker>${last}</NextUploadIdMarker>`;
    xml(res, `<ListMultipartUploadsResult>${next}${named.join('')}</ListMultipartUploadsResult>`);
  }

  return store;
}

function refuse(res: ServerResponse, { status, code }: Refused): void {
  xml(res, `<Error><Code>${code}</Code><Message>${code}</Message></Error>`, status);
}

function xml(res: ServerResponse, text: string, status = 200): void {
  res.writeHead(status, { 'content-type': 'application/xml' });
  res.end(`<?xml version="1.0" encoding="UTF-8"?>${text}`);
}
