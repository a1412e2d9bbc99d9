import { contentType, type FileFetchError } from '#contract/file.ts';
import type { FetchFailure } from '#platform/guarded-fetch/fetch-error.ts';
import type { GuardedRequest } from '#platform/guarded-fetch/guarded-request.ts';
import { FetchError, type GuardedFetch } from '#platform/guarded-fetch.ts';

type Limits = Pick<GuardedRequest, 'allowedNetworks' | 'group' | 'timeoutMs' | 'responseBytesMax' | 'signal'>;

/** `detail` is for the operator's log only. */
export type FetchedFile =
  | { bytes: Buffer; contentType: string | undefined }
  | { error: FileFetchError; detail?: string };

/**
 * Fetches a file through the network guard. Every failure of the other server is returned as a short code. Throws
 * FetchError `aborted` when the signal aborted.
 */
export async function fetchFile(fetch: GuardedFetch, url: string, limits: Limits): Promise<FetchedFile> {
  if (limits.timeoutMs <= 0) return { error: 'timeout' };
  try {
    const headers = { accept: '*/*', 'accept-encoding': 'identity' };
    const {
      status,
      headers: answered,
      body,
    } = await fetch({ url, method: 'GET', headers, onTooLarge: 'fail', ...limits });
    if (status >= 300 && status < 400) return { error: 'redirect' };
    if (status !== 200) return { error: `http_${status}` };
    if (!/^(identity)?$/i.test(answered['content-encoding'] ?? '')) return { error: 'encoded' };
    return { bytes: body, contentType: contentType.safeParse(answered['content-type']).data };
  } catch (error) {
    if (!(error instanceof FetchError) || error.reason === 'aborted') throw error;
    return { error: codeOf(error.reason), detail: error.message };
  }
}

/** An organisation does not learn whether a name is unknown, or leads to an address that is not allowed. */
function codeOf(reason: Exclude<FetchFailure, 'aborted'>): FileFetchError {
  if (reason === 'dns' || reason === 'blocked') return 'unreachable';
  return reason === 'too-large' ? 'too_large' : reason;
}
