import type { Readable } from 'node:stream';

/** Bytes of a file, both ends included. */
export interface ByteRange {
  start: number;
  end: number;
}

/**
 * Where files of exports go. A name is `org/<id>/<export>/<file>` or `platform/<export>/<file>`.
 */
export interface ExportTarget {
  /**
   * Throws if nothing can be written there, with the reason in words for the person who asks for an
   * export.
   */
  check: () => Promise<void>;
  /** A path where a file may be written before it has its name; its folder is there. */
  draft: (name: string, attempt: string) => Promise<string>;
  /** Gives a draft its name, in one step: whoever looks finds all of it or none. */
  publish: (draft: string, name: string, sha256: string, signal?: AbortSignal) => Promise<void>;
  /** Deletes a draft, if it is still there. */
  discard: (draft: string) => Promise<void>;
  /**
   * Deletes what killed workers left of an export whose files are all written: drafts, uploads that
   * nobody ended.
   */
  tidy: (folder: string, signal?: AbortSignal) => Promise<void>;
  /** Deletes all files of a folder, drafts too; the signal ends it. */
  clear: (folder: string, signal?: AbortSignal) => Promise<void>;
  /** How a reader gets a file: its bytes, or an address that is good for some minutes. */
  read: (name: string, range?: ByteRange) => Promise<{ body: Readable } | { url: string }>;
  /** Gives its connections back. */
  close: () => void;
}
