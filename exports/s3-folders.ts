import {
  AbortMultipartUploadCommand,
  DeleteObjectsCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  ListObjectsV2Command,
  type S3Client,
} from '@aws-sdk/client-s3';

/** What a store has of one folder. */
export interface StoredFolder {
  client: S3Client;
  Bucket: string;
  Prefix: string;
  /** How long each request may take. */
  within: () => { abortSignal: AbortSignal };
}

/** Deletes all files of a folder, those too that are on their way. */
export async function deleteAll(at: StoredFolder): Promise<void> {
  try {
    // First: an upload that ended behind the deletion would leave its file.
    await endUploads(at);
  } finally {
    await deleteObjects(at);
  }
}

/** What stores answer that know no lists of uploads, or show them to nobody who may write alone. */
const not_ours = [400, 403, 405, 501];

/** Ends uploads that a worker began before it died: what they hold is stored, and seen nowhere. */
export async function endUploads(at: StoredFolder): Promise<void> {
  try {
    await abortUploads(at);
  } catch (error) {
    // Such stores and credentials are none of ours to change: the bucket's own rule ends them.
    const { $metadata } = error as { $metadata?: { httpStatusCode?: number } };
    if (!not_ours.includes($metadata?.httpStatusCode ?? 0)) throw error;
  }
}

async function abortUploads({ client, Bucket, Prefix, within }: StoredFolder): Promise<void> {
  let after: { KeyMarker?: string | undefined; UploadIdMarker?: string | undefined } = {};
  for (;;) {
    const asked = new ListMultipartUploadsCommand({ Bucket, Prefix, ...after });
    const page: ListMultipartUploadsCommandOutput = await client.send(asked, within());
    for (const { Key, UploadId } of page.Uploads ?? [])
      await abortUpload(client, { Bucket, Key, UploadId }, within());
    if (!page.IsTruncated) return;
    after = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker };
  }
}

async function abortUpload(
  client: S3Client,
  upload: { Bucket: string; Key: string | undefined; UploadId: string | undefined },
  within: { abortSignal: AbortSignal },
): Promise<void> {
  try {
    await client.send(new AbortMultipartUploadCommand(upload), within);
  } catch (error) {
    // It has ended meanwhile.
    if ((error as Error).name !== 'NoSuchUpload') throw error;
  }
}

async function deleteObjects({ client, Bucket, Prefix, within }: StoredFolder): Promise<void> {
  for (;;) {
    const listed = await client.send(new ListObjectsV2Command({ Bucket, Prefix }), within());
    if (listed.Contents === undefined || listed.Contents.length === 0) return;
    const Delete = { Objects: listed.Contents.map(({ Key }) => ({ Key })), Quiet: true };
    const deletion = new DeleteObjectsCommand({ Bucket, Delete });
    const { Errors = [] } = await client.send(deletion, within());
    if (Errors.length > 0) throw Object.assign(new Error(), { name: Errors[0]?.Code ?? 'Error' });
  }
}
