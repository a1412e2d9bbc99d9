/**
 * Reads an answer of the service: decompresses it, parses its JSON, and throws an error with the service's own text for
 * a problem, also for one that was sent with status 200. Each error's recovery says whether a retry can help.
 */
import { promisify } from 'node:util';
import { brotliDecompress, gunzip } from 'node:zlib';
import { z } from 'zod';
import { AppError, hasErrorCode, type Recovery } from '#platform/errors.ts';
import type { GuardedResponse } from '#platform/guarded-fetch/guarded-request.ts';
import { createSecretRemover } from '#platform/remove-secrets.ts';
import { parseExactJson } from './exact-json.ts';
import { isRedirect, redirectTarget } from './slash-redirects.ts';

const unpackers: Readonly<Record<string, (packed: Buffer, limit: { maxOutputLength: number }) => Promise<Buffer>>> = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  br: promisify(brotliDecompress),
};

/**
 * Returns the decompressed body. `bytesMax` also limits the decompressed size, because a small body may decompress to
 * one that fills the memory. Throws AppError `too-large`, or `unavailable` when the body cannot be decompressed.
 */
export async function unpack({ headers, body }: GuardedResponse, what: string, bytesMax: number): Promise<Buffer> {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? '';
  if (encoding === '' || encoding === 'identity' || body.length === 0) return body;
  const unpacker = unpackers[encoding];
  if (!unpacker) throw new AppError('unavailable', `The answer to ${what} has an encoding that was not asked for.`);
  return unpacker(body, { maxOutputLength: bytesMax }).catch((cause: unknown) => {
    throw hasErrorCode(cause, 'ERR_BUFFER_TOO_LARGE')
      ? new AppError('too-large', `The answer to ${what} is larger than allowed.`, { recovery: { do: 'skip' } })
      : new AppError('unavailable', `The answer to ${what} cannot be decompressed.`, { cause });
  });
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Decodes UTF-8, the only encoding of JSON, and drops a byte order mark. Throws AppError `unavailable` for other bytes.
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
 * Returns the JSON of an answer with status 2xx, or undefined for an answer that may be empty. Throws AppError
 * `unavailable` with the recovery `retry` for a text that is no JSON or is incomplete, and as `errorOfAnswer` for a
 * problem that was sent with status 200.
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
    const page = /html/i.test(type) ? ': it is a page for people, as of a login or of a proxy' : '';
    throw new AppError('unavailable', `The answer to ${call.what} is not JSON (${status}, ${type})${page}.`);
  }
  const hidden = hiddenProblem(body, headers['content-type']);
  if (hidden !== undefined)
    throw errorOfAnswer({ ...answer, status: hidden }, call.what, { secrets, sentWith: status });
  return body;
}

/** The status of a problem (RFC 9457) that was sent instead of a result; undefined when the body is a result. */
function hiddenProblem(body: unknown, contentType = ''): number | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const { status, title, detail } = body as Record<string, unknown>;
  const isError = typeof status === 'number' && status >= 400 && status <= 599;
  if (/^application\/problem\+json\b/i.test(contentType)) return isError ? status : 500;
  // A result may have a member `status`, too, but not a number of 400 to 599.
  return isError && (typeof title === 'string' || typeof detail === 'string') ? status : undefined;
}

/** The service answered with an error. */
export class AnswerError extends AppError {
  readonly status: number;

  constructor(status: number, ...error: ConstructorParameters<typeof AppError>) {
    super(...error);
    this.status = status;
  }
}

/**
 * The error of an answer with another status than 2xx, with the text of its problem. Its recovery is `retry` (after
 * `afterMs`) for 408, 429 and 5xx, else `halt`: an operator has to act.
 */
export function errorOfAnswer(
  { status, headers, text }: TextAnswer,
  what: string,
  options: {
    secrets: readonly string[];
    afterMs?: number | undefined;
    note?: string;
    sentWith?: number;
    /** The URL that was requested: where a redirect points to is shown by it. */
    url?: string;
  },
): AnswerError {
  const { secrets, afterMs, note = '', sentWith, url } = options;
  const isTransient = status === 429 || status === 408 || status >= 500;
  const recovery: Recovery = isTransient
    ? { do: 'retry', ...(afterMs === undefined ? {} : { afterMs }) }
    : { do: 'halt' };
  // Some services answer a key that they do not know with 403 and nothing else; a missing scope is told in words.
  const isUnknownKey = status === 403 && text === '';
  const code =
    status === 429 ? 'too-many' : isTransient ? 'unavailable' : isUnknownKey ? 'unauthorized' : codeOf(status);
  // Some services repeat parts of the request in their error texts.
  const said = isRedirect(status)
    ? redirectOf(headers, url)
    : isUnknownKey
      ? ' and an empty body: the API key is wrong or revoked.'
      : detailOf(text);
  const detail = createSecretRemover(secrets)(said);
  const hidden = sentWith === undefined ? '' : ` (sent as ${sentWith})`;
  return new AnswerError(status, code, `${what} was answered with ${status}${hidden}${detail.slice(0, 500)}${note}`, {
    recovery,
  });
}

function codeOf(status: number) {
  if (status === 401) return 'unauthorized';
  if (status === 403) return 'forbidden';
  if (status === 404) return 'not-found';
  return status === 409 ? 'conflict' : 'invalid';
}

function redirectOf(headers: TextAnswer['headers'], url: string | undefined): string {
  const target = url === undefined ? '' : ` to ${redirectTarget(headers['location'], url).slice(0, 300)}`;
  return `, a redirect${target}, which is not followed: check base_url.`;
}

/** A problem (RFC 9457), or `{errors: [text], field_errors: {path: [text]}}` of another service. */
const errorForm = z
  .looseObject({ detail: z.unknown(), errors: z.unknown(), field_errors: z.unknown() })
  .partial()
  .transform(({ detail, errors, field_errors: fields }) => {
    const said = [detail, errors].flatMap((each) => textsOf(each));
    const ofFields = z.record(z.string(), z.unknown()).safeParse(fields).data ?? {};
    const named = Object.entries(ofFields).flatMap(([path, each]) => textsOf(each).map((text) => `${path}: ${text}`));
    return [...said, ...named];
  });

const pathForm = z.looseObject({ path: z.string().min(1).optional(), message: z.string() });

/** The texts of an error: of a text, of an object with `path` and `message`, or of a list of them. */
function textsOf(error: unknown): string[] {
  if (error === undefined || error === null || error === '') return [];
  if (typeof error === 'string') return [error];
  if (Array.isArray(error)) return error.flatMap((each: unknown) => textsOf(each));
  const read = pathForm.safeParse(error).data;
  if (read === undefined) return [JSON.stringify(error)];
  return [read.path === undefined ? read.message : `${read.path}: ${read.message}`];
}

/** What the service says is wrong, as the end of a sentence. What its `detail` says already is not repeated. */
function detailOf(text: string): string {
  try {
    const [first, ...others] = errorForm.parse(JSON.parse(text));
    if (first === undefined) return '.';
    return `: ${[first, ...others.filter((other) => !first.includes(other))].join('; ')}`;
  } catch {
    return '.';
  }
}
