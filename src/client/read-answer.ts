/**
 * What an answer says: unpacked, read as JSON, and refused with the service's own words where it is an error, also one
 * that hides behind a 200. Each error says whether it passes.
 */
import { promisify } from 'node:util';
import { brotliDecompress, gunzip } from 'node:zlib';
import { problem } from '#contract/problem.ts';
import { AppError, hasErrorCode, type Recovery } from '#platform/errors.ts';
import type { GuardedResponse } from '#platform/guarded-fetch.ts';
import { parseExactJson } from './exact-json.ts';

const unpackers: Readonly<Record<string, (packed: Buffer, limit: { maxOutputLength: number }) => Promise<Buffer>>> = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  br: promisify(brotliDecompress),
};

/**
 * The body as it was before it was packed. The limit holds for what comes out, too: a small body may unpack to one that
 * fills the memory. Throws AppError `too-large`, or `unavailable` where it cannot be unpacked.
 */
export async function unpack({ headers, body }: GuardedResponse, what: string, bytesMax: number): Promise<Buffer> {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? '';
  if (encoding === '' || encoding === 'identity' || body.length === 0) return body;
  const unpacker = unpackers[encoding];
  if (!unpacker) throw new AppError('unavailable', `The answer to ${what} is packed in a way that was not asked for.`);
  return unpacker(body, { maxOutputLength: bytesMax }).catch((cause: unknown) => {
    throw hasErrorCode(cause, 'ERR_BUFFER_TOO_LARGE')
      ? new AppError('too-large', `The answer to ${what} is larger than allowed.`, { recovery: { do: 'skip' } })
      : new AppError('unavailable', `The answer to ${what} cannot be unpacked.`, { cause });
  });
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * The text without a byte order mark. Throws AppError `unavailable` for other bytes than UTF-8, which JSON has to be.
 */
export function decode(bytes: Buffer, what: string): string {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw new AppError('unavailable', `The answer to ${what} is not in UTF-8.`, { cause });
  }
}

export interface TextAnswer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly text: string;
}

/**
 * The JSON of an answer with a status of 2xx; undefined for one without a body where that is right. Throws AppError
 * `unavailable`, to be tried again, for what is no JSON or cut short; as `refusalOf` for a problem that was sent with
 * 200.
 */
export function readJson(
  answer: TextAnswer,
  call: { method: string; what: string },
  secrets: readonly string[],
): unknown {
  const { status, headers, text } = answer;
  if (text.trim() === '') {
    if (call.method !== 'GET' || status === 204) return undefined;
    throw new AppError('unavailable', `The answer to ${call.what} is empty.`);
  }
  let body: unknown;
  try {
    body = parseExactJson(text);
  } catch {
    const type = headers['content-type']?.split(';')[0]?.slice(0, 100) ?? 'no content type';
    throw new AppError('unavailable', `The answer to ${call.what} is not JSON (${status}, ${type}).`);
  }
  const hidden = hiddenProblem(body, headers['content-type']);
  if (hidden !== undefined)
    throw errorOfAnswer({ ...answer, status: hidden }, call.what, { secrets, sentWith: status });
  return body;
}

/** The status of a problem (RFC 9457) that stands where a result should. */
function hiddenProblem(body: unknown, contentType = ''): number | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const { status, title, detail } = body as Record<string, unknown>;
  const isError = typeof status === 'number' && status >= 400 && status <= 599;
  if (/^application\/problem\+json\b/i.test(contentType)) return isError ? status : 500;
  // Records have a status, too, but in words.
  return isError && (typeof title === 'string' || typeof detail === 'string') ? status : undefined;
}

/**
 * The error of an answer that is not of 2xx, with its problem's words. 408, 429 and 5xx pass, not before `afterMs`;
 * anything else is a person's to solve.
 */
export function errorOfAnswer(
  { status, text }: TextAnswer,
  what: string,
  options: { secrets: readonly string[]; afterMs?: number | undefined; sentWith?: number },
): AppError {
  const { secrets, afterMs, sentWith } = options;
  const passing = status === 429 || status === 408 || status >= 500;
  const recovery: Recovery = passing ? { do: 'retry', ...(afterMs === undefined ? {} : { afterMs }) } : { do: 'halt' };
  const code = status === 429 ? 'too-many' : passing ? 'unavailable' : codeOf(status);
  // Some services repeat in their words what they were sent.
  const words = secrets.reduce((said, secret) => said.replaceAll(secret, '[secret]'), wordsOf(status, text));
  const hidden = sentWith === undefined ? '' : ` (sent as ${sentWith})`;
  return new AppError(code, `${what} was answered with ${status}${hidden}${words.slice(0, 500)}`, { recovery });
}

function codeOf(status: number) {
  if (status === 401) return 'unauthorized';
  if (status === 403) return 'forbidden';
  if (status === 404) return 'not-found';
  return status === 409 ? 'conflict' : 'invalid';
}

function wordsOf(status: number, text: string): string {
  if (status >= 300 && status <= 399) return ', a redirect, which is not followed: check base_url.';
  try {
    const { detail } = problem.partial().parse(JSON.parse(text));
    return detail === undefined ? '.' : `: ${detail}`;
  } catch {
    return '.';
  }
}
