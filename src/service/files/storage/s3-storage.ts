/**
 * Files in a bucket of an S3-compatible store, through Amazon's own client: of the clients that were compared it has a
 * release every week, and other stores are tested with it. It is loaded only where S3 is used (22 MB on disk).
 *
 * An upload is first spooled to a file of this machine that has no name: S3 needs the length beforehand, the store
 * checks the bytes against their SHA-256, and a request that failed is sent again, all without holding a file in
 * memory.
 */

import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import pRetry from 'p-retry';
import { loadOptional } from '#platform/optional-package.ts';
import { checkFileId, type FileStorage, storageUnavailable } from './file-storage.ts';
import { measure } from './measure.ts';

export interface S3Settings {
  readonly bucket: string;
  readonly region: string;
  /** Default: Amazon's endpoint for the region. With another one the bucket stands in the path, not in the host's name. */
  readonly endpoint?: string | undefined;
  /** Default: the credentials that Amazon's client finds in its variables, its files or the machine's role. */
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string } | undefined;
}

/** The longest wait for a connection. */
const connectTimeoutMs = 5_000;
/**
 * The longest wait for an answer: for a download until its first byte, for an upload on top of the time for its bytes.
 */
const answerTimeoutMs = 60_000;
/** A slower upload is given up. */
const uploadBytesPerMsMin = 100;
/** A transfer without any progress for this long is given up. */
const stalledMs = 120_000;
const chunkBytes = 65_536;
const triesMax = 3;
const retryAfterMs = 200;

/** The client also throws every error that matters. */
const ignore = () => undefined;

/** `spoolDirectory` needs space for all uploads that run at the same time. Sends no request to the store yet. */
export async function createS3Storage(settings: S3Settings, spoolDirectory: string): Promise<FileStorage> {
  const { S3Client, PutObjectCommand, GetObjectCommand, DeleteObjectCommand } = await loadOptional(
    's3',
    'The file store s3 (service.files)',
    () => import('@aws-sdk/client-s3'),
  );
  const client = new S3Client({
    region: settings.region,
    forcePathStyle: settings.endpoint !== undefined,
    ...(settings.endpoint === undefined ? {} : { endpoint: settings.endpoint }),
    ...(settings.credentials === undefined ? {} : { credentials: settings.credentials }),
    maxAttempts: triesMax,
    // Not every store understands the newer kinds of checksums; an upload carries its SHA-256.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // Without a logger the client writes to standard error.
    logger: { trace: ignore, debug: ignore, info: ignore, warn: ignore, error: ignore },
    requestHandler: { connectionTimeout: connectTimeoutMs, socketTimeout: stalledMs },
  });
  const objectOf = (id: string) => {
    checkFileId(id);
    return { Bucket: settings.bucket, Key: id };
  };

  return {
    async put(id, bytes) {
      const object = objectOf(id);
      const source = measure(bytes);
      try {
        await using spool = await openSpool(spoolDirectory);
        await spool.writeFile(source.bytes);
        const { size, sha256 } = source.result();
        // The client itself does not repeat a request whose body is a stream.
        await pRetry(
          () => {
            const Body = Readable.from(readWhole(spool));
            const upload = { ...object, Body, ContentLength: size, ChecksumSHA256: sha256.toString('base64') };
            return within(answerTimeoutMs + size / uploadBytesPerMsMin, (abortSignal) =>
              client.send(new PutObjectCommand(upload), { abortSignal }),
            ).finally(() => Body.destroy());
          },
          { retries: triesMax - 1, minTimeout: retryAfterMs, shouldRetry: ({ error }) => isRetryable(error) },
        );
        return { size, sha256 };
      } catch (error) {
        throw source.hasFailed() ? error : storageUnavailable('store a file', error);
      }
    },

    async get(id, part) {
      const object = part ? { ...objectOf(id), Range: `bytes=${part.first}-${part.last}` } : objectOf(id);
      try {
        const { Body, ContentLength, ContentRange } = await within(answerTimeoutMs, (abortSignal) =>
          client.send(new GetObjectCommand(object), { abortSignal }),
        );
        if (Body === undefined || ContentLength === undefined) throw new Error('the answer has no body or no length');
        // In Node the body always is a Readable.
        const stream = Body as unknown as Readable;
        if (!part) return { size: ContentLength, stream };
        const [, first, size] = /^bytes (\d+)-\d+\/(\d+)$/.exec(ContentRange ?? '') ?? [];
        if (Number(first) === part.first && ContentLength === part.last - part.first + 1)
          return { size: Number(size), stream };
        stream.destroy();
        throw new Error('the store has not answered with the part that was asked for');
      } catch (error) {
        if (error instanceof Error && error.name === 'NoSuchKey') return undefined;
        throw storageUnavailable('open a file', error);
      }
    },

    async remove(id) {
      const object = objectOf(id);
      try {
        await within(answerTimeoutMs, (abortSignal) => client.send(new DeleteObjectCommand(object), { abortSignal }));
      } catch (error) {
        throw storageUnavailable('remove a file', error);
      }
    },

    close: () => client.destroy(),
  };
}

/** A file without a name: it leaves nothing behind, however this process ends. */
async function openSpool(directory: string): Promise<FileHandle> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const path = join(directory, randomUUID());
  const handle = await open(path, 'wx+', 0o600);
  await rm(path);
  return handle;
}

/** Reads the file from its beginning, at each call. A stream of the handle would close the handle at its end. */
async function* readWhole(handle: FileHandle): AsyncGenerator<Buffer, void, undefined> {
  for (let position = 0; ; ) {
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(chunkBytes), 0, chunkBytes, position);
    if (bytesRead === 0) return;
    position += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** Aborts `send` when it has not settled after `ms`. What comes later, such as the rest of a body, is not aborted. */
async function within<T>(ms: number, send: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(), ms);
  try {
    return await send(timeout.signal);
  } finally {
    clearTimeout(timer);
  }
}

/** False for a request that the store has refused for good. */
function isRetryable(error: unknown): boolean {
  const status = (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode;
  return status === undefined || status >= 500 || status === 429;
}
