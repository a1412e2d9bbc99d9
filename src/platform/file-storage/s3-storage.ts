/**
 * Files in a bucket of an S3-compatible store, through Amazon's own client: of those looked at it is the one with a
 * release a week, and the one that other stores are tested with. It is loaded only where S3 is used (22 MB on disk).
 *
 * What is uploaded is first spooled to a file of this machine that has no name: S3 wants the length beforehand, the store
 * checks the bytes against their SHA-256, and a request that failed is sent again, all without holding a file in memory.
 */
import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import pRetry from 'p-retry';
import { checkFileId, type FileStorage, storageUnavailable } from '../file-storage.ts';
import { measure } from './measure.ts';

export interface S3Settings {
  readonly bucket: string;
  readonly region: string;
  /** What each key begins with. */
  readonly prefix: string;
  /** Without it Amazon's, for the region. */
  readonly endpoint?: string | undefined;
  /** The bucket in the path and not in the host's name. */
  readonly pathStyle: boolean;
  /** Without them those that Amazon's client finds: its variables, its files, the machine's role. */
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string } | undefined;
}

/** Waiting for a connection. */
const connectionMs = 5_000;
/** Until a request is answered; of a download, until its first byte; of an upload, beside the time for its bytes. */
const answerMs = 60_000;
/** An upload that is slower is given up. */
const slowestBytesPerMs = 100;
/** A transfer that stands still for so long is dead. */
const stalledMs = 120_000;
const chunkBytes = 65_536;
const triesMax = 3;
const retryAfterMs = 200;

/** What it has to say that matters it also throws. */
const ignore = () => undefined;

/** `spoolDirectory` needs room for the uploads of one moment. Nothing is asked of the store yet. */
export async function createS3Storage(settings: S3Settings, spoolDirectory: string): Promise<FileStorage> {
  const { S3Client, PutObjectCommand, GetObjectCommand, DeleteObjectCommand } = await import('@aws-sdk/client-s3');
  const client = new S3Client({
    region: settings.region,
    forcePathStyle: settings.pathStyle,
    ...(settings.endpoint === undefined ? {} : { endpoint: settings.endpoint }),
    ...(settings.credentials === undefined ? {} : { credentials: settings.credentials }),
    maxAttempts: triesMax,
    // Checksums of newer kinds are not understood by every store; an upload carries its SHA-256.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // Left out, it writes to standard error as it likes.
    logger: { trace: ignore, debug: ignore, info: ignore, warn: ignore, error: ignore },
    requestHandler: { connectionTimeout: connectionMs, socketTimeout: stalledMs },
  });
  const objectOf = (id: string) => {
    checkFileId(id);
    return { Bucket: settings.bucket, Key: settings.prefix + id };
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
            return within(answerMs + size / slowestBytesPerMs, (abortSignal) =>
              client.send(new PutObjectCommand(upload), { abortSignal }),
            ).finally(() => Body.destroy());
          },
          { retries: triesMax - 1, minTimeout: retryAfterMs, shouldRetry: ({ error }) => mayPass(error) },
        );
        return { size, sha256 };
      } catch (error) {
        throw source.hasFailed() ? error : storageUnavailable('store a file', error);
      }
    },

    async get(id) {
      const object = objectOf(id);
      try {
        const { Body, ContentLength } = await within(answerMs, (abortSignal) =>
          client.send(new GetObjectCommand(object), { abortSignal }),
        );
        if (Body === undefined || ContentLength === undefined) throw new Error('the answer has no body or no length');
        // In Node it always is.
        return { size: ContentLength, stream: Body as unknown as Readable };
      } catch (error) {
        if (error instanceof Error && error.name === 'NoSuchKey') return undefined;
        throw storageUnavailable('open a file', error);
      }
    },

    async remove(id) {
      const object = objectOf(id);
      try {
        await within(answerMs, (abortSignal) => client.send(new DeleteObjectCommand(object), { abortSignal }));
      } catch (error) {
        throw storageUnavailable('remove a file', error);
      }
    },

    close: () => client.destroy(),
  };
}

/** A file without a name: whatever becomes of this process, it leaves nothing. */
async function openSpool(directory: string): Promise<FileHandle> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const path = join(directory, randomUUID());
  const handle = await open(path, 'wx+', 0o600);
  await rm(path);
  return handle;
}

/** From its beginning, as often as it is asked for: a stream of the handle would close it with itself. */
async function* readWhole(handle: FileHandle): AsyncGenerator<Buffer, void, undefined> {
  for (let position = 0; ; ) {
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(chunkBytes), 0, chunkBytes, position);
    if (bytesRead === 0) return;
    position += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** Aborts what has not settled after `ms`; what comes later, as the rest of a body, is not touched. */
async function within<T>(ms: number, send: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), ms);
  try {
    return await send(late.signal);
  } finally {
    clearTimeout(timer);
  }
}

/** Not what the store has refused for good. */
function mayPass(error: unknown): boolean {
  const answered = (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode;
  return answered === undefined || answered >= 500 || answered === 429;
}
