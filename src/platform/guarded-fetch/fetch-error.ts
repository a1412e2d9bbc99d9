/**
 * What can go wrong with a request, as one error class. Its texts name the host, never the path, the query, a header or
 * the body.
 */
import { AppError, type ErrorCode, errorText, type Recovery } from '../errors.ts';
import { specialRangeOf } from '../network-guard.ts';

/**
 * - `timeout`, `dns`, `refused`, `tls`, `reset`: the other side could not be reached or went away; code `unavailable`
 * - `blocked`: the guard refused the address; code `forbidden`
 * - `too-large`: the body passed the limit and `onTooLarge` is `fail`; code `too-large`
 * - `aborted`: the caller's signal, or `close()`; code `unavailable`
 * - `protocol`: the answer was not HTTP (code `unavailable`), or the request cannot be sent at all (code `invalid`)
 */
export type FetchFailure =
  | 'timeout'
  | 'dns'
  | 'refused'
  | 'tls'
  | 'reset'
  | 'blocked'
  | 'too-large'
  | 'aborted'
  | 'protocol';

/** An AppError whose `reason` says, for machines, what went wrong. */
export class FetchError extends AppError {
  readonly reason: FetchFailure;
  /** Whether any part of the request may have left this process. */
  sent = false;

  constructor(
    code: ErrorCode,
    reason: FetchFailure,
    publicMessage: string,
    options: { message?: string; recovery?: Recovery },
  ) {
    super(code, publicMessage, options);
    this.name = 'FetchError';
    this.reason = reason;
  }
}

/** The same for a name that does not exist and for one that leads inside: outsiders could map the inner network by it. */
const notReachable = (host: string) =>
  `${host} could not be connected to: its name does not resolve, or its address is not allowed.`;

const publicTexts: Record<FetchFailure, (host: string) => string> = {
  timeout: (host) => `${host} did not answer in time.`,
  dns: notReachable,
  refused: (host) => `${host} could not be connected to.`,
  tls: (host) => `A secure connection to ${host} could not be made: its certificate or TLS settings were not accepted.`,
  reset: (host) => `${host} closed the connection before the answer was complete.`,
  blocked: notReachable,
  'too-large': (host) => `The answer of ${host} is larger than allowed.`,
  aborted: (host) => `The request to ${host || 'the other side'} was given up.`,
  protocol: (host) => `${host} did not answer with valid HTTP.`,
};

/** The error for `reason`; `detail` goes to the log only. */
export function fetchErrorOf(
  reason: FetchFailure,
  host: string,
  detail?: string,
  publicMessage = publicTexts[reason](host),
): FetchError {
  const text = reason === 'dns' ? `The name ${host} could not be resolved.` : publicMessage;
  return new FetchError(reason === 'too-large' ? 'too-large' : 'unavailable', reason, publicMessage, {
    message: detail === undefined ? text : `${text} (${detail})`,
    recovery: reason === 'too-large' ? { do: 'skip' } : { do: 'retry' },
  });
}

/** The guard's refusal. Only the operator learns of it, and of the address. */
export function blockedAddress(host: string, address: string): FetchError {
  return new FetchError('forbidden', 'blocked', notReachable(host), {
    message: `${host} was refused: ${address} is ${specialRangeOf(address)} and in no allowed network.`,
    // The name may point to another address later, but an automatic retry does not help.
    recovery: { do: 'skip' },
  });
}

/** The refusal of a request that cannot be sent as it is. */
export function unsendable(publicMessage: string): FetchError {
  return new FetchError('invalid', 'protocol', publicMessage, { recovery: { do: 'skip' } });
}

/** The errors of undici and Node, by their codes. */
const reasonsByCode: readonly [pattern: RegExp, reason: FetchFailure][] = [
  [/^(ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)$/, 'timeout'],
  [/^(ENOTFOUND|ENODATA|EAI_.*)$/, 'dns'],
  [/^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN|EADDRNOTAVAIL|EACCES|EPERM)$/, 'refused'],
  [
    /^(ERR_TLS_|ERR_SSL_|EPROTO$|CERT_|CRL_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERROR_IN_|INVALID_(CA|PURPOSE)$)/,
    'tls',
  ],
  // UNSPECIFIED is Node's code for a name that the authority may not vouch for.
  [/^(HOSTNAME_MISMATCH|PATH_LENGTH_EXCEEDED|UNSPECIFIED)$/, 'tls'],
  [/^(HPE_|HTTPParserError$|UND_ERR_HEADERS_OVERFLOW$|UND_ERR_RES)/, 'protocol'],
  // The proxy could not be reached, or made no tunnel.
  [/^UND_ERR_(ABORTED|PRX_.*)$/, 'refused'],
  [/^(UND_ERR_DESTROYED|UND_ERR_CLOSED)$/, 'aborted'],
];

/** What is wrong with a server's certificate, by the codes of OpenSSL and Node: who owns the server can correct it. */
const certificateFaults: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  CERT_REVOKED: 'its certificate is revoked',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  HOSTNAME_MISMATCH: 'its certificate is for another name',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate comes from an authority that is not trusted here',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    'its certificate comes from an authority that is not trusted here, or its chain is incomplete',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    'the chain of its certificate is incomplete (it must send the intermediate certificates, too), or its authority is not trusted here',
};

function tlsTextOf(code: string, host: string): string {
  const fault = certificateFaults[code];
  return fault === undefined ? publicTexts.tls(host) : `A secure connection to ${host} could not be made: ${fault}.`;
}

/**
 * Any error of undici or Node as a FetchError. Only its text is kept: undici's errors carry sockets, requests and
 * pieces of the answer.
 */
export function toFetchError(error: unknown, host: string): FetchError {
  if (error instanceof FetchError) return error;
  const code = codeOf(error);
  if (/^UND_ERR_(INVALID_ARG|REQ_CONTENT_LENGTH_MISMATCH)$/.test(code))
    return unsendable(`The request to ${host} is not valid: its method or a header.`);
  const reason = reasonsByCode.find(([pattern]) => pattern.test(code))?.[1] ?? 'reset';
  const detail = `${code} ${errorText(error)}`.trim();
  return reason === 'tls'
    ? fetchErrorOf(reason, host, detail, tlsTextOf(code, host))
    : fetchErrorOf(reason, host, detail);
}

/** Some of undici's parser errors have no code, only the name of their class. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return '';
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}
