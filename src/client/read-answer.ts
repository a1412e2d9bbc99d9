/**
 * Reads the text of an answer of the service: parses its JSON, and throws an error with the service's own text for a
 * problem, also for one that was sent with status 200. Each error's recovery says whether a retry can help.
 */
import { z } from 'zod';
import { AppError, type Recovery } from '#platform/errors.ts';
import { parseExactJson } from '#platform/exact-json.ts';
import { parseAnswer } from '#platform/foreign-answer.ts';
import { createSecretRemover } from '#platform/remove-secrets.ts';
import { isRedirect, redirectTarget } from './slash-redirects.ts';

export interface TextAnswer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly text: string;
}

/**
 * Returns the JSON of an answer with status 2xx, or undefined for an answer that may be empty. Throws as `parseAnswer`
 * does, and as `errorOfAnswer` for a problem that was sent with status 200.
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
  const body = parseAnswer(text, answer, `The answer to ${call.what}`);
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
    const [first, ...others] = errorForm.parse(parseExactJson(text));
    if (first === undefined) return '.';
    return `: ${[first, ...others.filter((other) => !first.includes(other))].join('; ')}`;
  } catch {
    return '.';
  }
}
