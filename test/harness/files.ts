/** Files for tests: uploading them over HTTP, and a storage that can be made to fail. */
import { createHash } from 'node:crypto';
import type { FileStorage, OpenFile } from '#service/files/storage/file-storage.ts';
import { createLocalStorage } from '#service/files/storage/local-storage.ts';
import type { HttpAnswer } from './request.ts';
import { scratchFolder } from './scratch-folder.ts';
import { endedJob } from './sourcing.ts';
import type { TestOrganisation } from './test-organisation.ts';

export const sha256 = (bytes: string | Buffer) => createHash('sha256').update(bytes).digest('hex');

/** POST /desk/files. */
export function upload(
  organisation: TestOrganisation,
  bytes: string | Buffer,
  headers: Record<string, string> = {},
): Promise<HttpAnswer> {
  return organisation.call('POST', '/desk/files', typeof bytes === 'string' ? Buffer.from(bytes) : bytes, {
    'content-type': 'application/pdf',
    'x-file-name': 'quote.pdf',
    ...headers,
  });
}

/** Uploads a file with this name and returns its id. */
export async function uploadFile(
  organisation: TestOrganisation,
  name = 'quote.pdf',
  bytes: string | Buffer = 'the bytes',
  contentType = 'application/pdf',
): Promise<string> {
  const headers = { 'content-type': contentType, 'x-file-name': encodeURIComponent(name) };
  const { status, body } = await upload(organisation, bytes, headers);
  if (status !== 201) throw new Error(`${status} ${JSON.stringify(body)}`);
  return body.uuid;
}

/** Submits a link job and returns it when it has ended. */
export function linkJob(organisation: TestOrganisation, ids: readonly string[]) {
  return endedJob(organisation, '/api/jobs/generate-file-download-links', { file_uuids: ids });
}

/** A fresh link to one file. */
export async function linkTo(organisation: TestOrganisation, id: string): Promise<string> {
  return (await linkJob(organisation, [id])).detail.data[0].download_url;
}

/** Downloads without an API key; the bytes are unchanged. */
export async function download(url: string, method = 'GET', headers: Record<string, string> = {}) {
  const answer = await fetch(url, { method, headers });
  return { status: answer.status, headers: answer.headers, bytes: Buffer.from(await answer.arrayBuffer()) };
}

export interface BreakableStorage extends FileStorage {
  /** The ids of the files in the storage. */
  readonly stored: Set<string>;
  /** Called before each call; the call fails with its error. */
  before: (call: 'put' | 'get' | 'remove', id: string) => void | Promise<void>;
  /** Replaces the result of `get`. */
  found: (file: OpenFile | undefined) => OpenFile | undefined;
}

export async function breakableStorage(): Promise<BreakableStorage> {
  const inner = createLocalStorage(await scratchFolder());
  const stored = new Set<string>();
  const storage: BreakableStorage = {
    stored,
    before: () => undefined,
    found: (file) => file,
    put: async (id, bytes) => {
      await storage.before('put', id);
      const result = await inner.put(id, bytes);
      stored.add(id);
      return result;
    },
    get: async (id, part) => {
      await storage.before('get', id);
      return storage.found(await inner.get(id, part));
    },
    remove: async (id) => {
      await storage.before('remove', id);
      await inner.remove(id);
      stored.delete(id);
    },
    close: () => inner.close(),
  };
  return storage;
}

/** A problem's body, read from bytes. */
export function problemOf(bytes: Buffer): { status: number; detail: string } {
  return JSON.parse(bytes.toString());
}
