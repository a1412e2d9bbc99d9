/**
 * Downloads a file through a pre-signed link. The link is a secret: with it, anyone can read the file. So errors and
 * logs do not show it, the API key is not sent to it, and redirects are not followed.
 */
import { AppError } from '#platform/errors.ts';
import { unpackAnswer } from '#platform/foreign-answer.ts';
import { anyNetwork, type Cidr, parseCidrs } from '#platform/network-guard.ts';
import { type ClientDeps, type ClientSettings, reportingFetch } from './send-call.ts';

/**
 * Returns the file's bytes. Throws AppError `forbidden` when the link is refused (for example because it has expired),
 * `invalid` for a link that must not be followed, `too-large`, or `unavailable` with the recovery `retry`.
 */
export type Download = (link: string, signal?: AbortSignal) => Promise<Uint8Array>;

const fileBytesMax = 128 * 1024 * 1024;

/** Creates the function that downloads files. */
export function createDownload({ settings, fetch, onRequest }: ClientDeps): Download {
  const fileNetworks = parseCidrs(settings.fileNetworks ?? []);
  return async (link, signal) => {
    const { url, allowedNetworks } = followedLink(link, { settings, fileNetworks });
    const answer = await reportingFetch({ fetch, onRequest }, 'downloads', {
      url: url.href,
      method: 'GET',
      headers: { 'accept-encoding': 'identity' },
      allowedNetworks,
      protocols: ['https:', 'http:'],
      timeoutMs: settings.timeoutMs,
      responseBytesMax: fileBytesMax,
      onTooLarge: 'fail',
      ...(signal ? { signal } : {}),
    });
    if (answer.status === 200) return (await unpackAnswer(answer, 'The answer to a download link', fileBytesMax)).body;
    throw refusedLink(answer.status, url.hostname, 'a download link');
  };
}

/** A link of the service to a file, and the networks that it may reach. Throws AppError `invalid` for any other link. */
export function followedLink(
  link: string,
  { settings, fileNetworks }: { settings: ClientSettings; fileNetworks: readonly Cidr[] },
): { url: URL; allowedNetworks: readonly Cidr[] } {
  const base = new URL(settings.baseUrl);
  const url = URL.parse(link);
  const isOwn = url?.hostname === base.hostname;
  if (!url || (url.protocol !== 'https:' && !(url.protocol === 'http:' && base.protocol === 'http:' && isOwn)))
    throw new AppError(
      'invalid',
      'The service returned a link to a file that is not followed: it must begin with https://.',
      {
        recovery: { do: 'skip' },
      },
    );
  // The operator has configured the service's host, so it may be on any network. Other hosts are the service's choice.
  return { url, allowedNetworks: isOwn ? anyNetwork : fileNetworks };
}

/** The error of an answer to a request with a link; `asked` is `a download link` or `an upload`. */
export function refusedLink(status: number, host: string, asked: string): AppError {
  const text = `${host} answered ${asked} with ${status}.`;
  if (status === 401 || status === 403) return new AppError('forbidden', text);
  if (status === 404 || status === 410) return new AppError('not-found', text, { recovery: { do: 'skip' } });
  const isTransient = status === 408 || status === 429 || status >= 500;
  return new AppError(isTransient ? 'unavailable' : 'invalid', text, {
    recovery: { do: isTransient ? 'retry' : 'halt' },
  });
}
