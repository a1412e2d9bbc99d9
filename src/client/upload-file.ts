/**
 * Uploads files to the pre-signed URLs that an attach job shows (`detail.files[].upload_url`). Such a URL is a secret:
 * with it, anyone can write the file. So errors and logs do not show it, the API key is not sent to it, and redirects are
 * not followed. It passes the same guard as a download link.
 */
import { AppError, errorText } from '#platform/errors.ts';
import { parseCidrs } from '#platform/network-guard.ts';
import { followedLink, refusedLink } from './download-file.ts';
import { type ClientDeps, reportingFetch } from './send-call.ts';

/** A file as the job shows it. */
interface ShownFile {
  readonly file_name?: string | undefined;
  readonly upload_url?: string | undefined;
}

/** A file of the payload, in base64. */
interface GivenFile {
  readonly file_name: string;
  readonly content?: string | undefined;
}

export interface UploadFault {
  readonly file: string;
  readonly error: unknown;
}

/**
 * PUTs the bytes of each file that the job shows with a URL; of files with one name in their order. A file may be
 * uploaded again: it is the same file. Returns which could not be uploaded, and why; rejects only when `signal` is
 * aborted.
 */
export type UploadFiles = (
  shown: readonly ShownFile[],
  given: readonly GivenFile[],
  signal?: AbortSignal,
) => Promise<UploadFault[]>;

const answerBytesMax = 64 * 1024;

/** Creates the function that uploads files. */
export function createUploadFiles({ settings, fetch, onRequest }: ClientDeps): UploadFiles {
  const fileNetworks = parseCidrs(settings.fileNetworks ?? []);

  async function upload(link: string, bytes: Uint8Array, signal?: AbortSignal): Promise<void> {
    const { url, allowedNetworks } = followedLink(link, { settings, fileNetworks });
    const answer = await reportingFetch({ fetch, onRequest }, 'uploads', {
      url: url.href,
      method: 'PUT',
      headers: {},
      body: bytes,
      allowedNetworks,
      protocols: ['https:', 'http:'],
      timeoutMs: settings.timeoutMs,
      responseBytesMax: answerBytesMax,
      ...(signal ? { signal } : {}),
    });
    if (answer.status < 200 || answer.status > 299) throw refusedLink(answer.status, url.hostname, 'an upload');
  }

  return async (shown, given, signal) => {
    const left = [...given];
    const faults: UploadFault[] = [];
    for (const { file_name: name, upload_url: link } of shown) {
      // A job that names no file shows them in the order in which they were sent.
      const at = name === undefined ? 0 : left.findIndex((file) => file.file_name === name);
      const [file] = at < 0 ? [] : left.splice(at, 1);
      if (link === undefined) continue;
      if (file?.content === undefined) {
        const error = new AppError('invalid', 'the job asks for this file, and it was not sent');
        faults.push({ file: name ?? 'a file', error });
        continue;
      }
      try {
        await upload(link, Buffer.from(file.content, 'base64'), signal);
      } catch (error) {
        signal?.throwIfAborted();
        faults.push({ file: file.file_name, error });
      }
    }
    return faults;
  };
}

/** `a.pdf: storage.example.com answered an upload with 403.`, of several files one after the other. */
export function uploadFaultText(faults: readonly UploadFault[]): string {
  return faults.map(({ file, error }) => `${file}: ${errorText(error)}`).join('; ');
}

/** Whether each of them may work when it is tried again. */
export function mayUploadLater(faults: readonly UploadFault[]): boolean {
  return faults.every(({ error }) => error instanceof AppError && error.recovery.do === 'retry');
}
