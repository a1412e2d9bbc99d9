/** Compiles the settings that say what an ERP's answers mean: errors, references and values to compare. */
import {
  AuthError,
  ConfigError,
  ConflictError,
  type ConnectorError,
  compileJsonPath,
  DataError,
  errorOfStatus,
  type HttpRequest,
  type HttpResponse,
  LockedError,
  type Operation,
  PathError,
  parseWithDigits,
  RateLimited,
  TransientError,
  UnknownOutcome,
} from 'sourcing-bridge/connector';
import type { AnswerRule, ReferenceForm, Settings } from './settings.ts';

export interface Answers {
  /** For `createHttp`: what an answer means where its status does not say it. */
  errorOf(response: HttpResponse, request: HttpRequest): ConnectorError | 'fine' | undefined;
  isLoginRefused(response: HttpResponse): boolean;
}

/** Compiles the rules of the settings. `nowMs` is the clock that `Retry-After` dates are compared with. */
export function compileAnswers(
  { answers: rules, message, expect }: Pick<Settings, 'answers' | 'message' | 'expect'>,
  nowMs: () => number,
): Answers {
  const compiled = rules.map((rule) => ({ means: rule.means, matches: compileRule(rule) }));
  const readMessage = message === undefined ? undefined : compileJsonPath(message);
  // The body is parsed only when a rule needs it.
  const ruleOf = (response: HttpResponse) => compiled.find(({ matches }) => matches(response));

  /** The response with the ERP's own message as its text, where it has one. */
  function withMessage(response: HttpResponse): HttpResponse {
    const words = readMessage?.(response.jsonIfAny());
    if (words === undefined || words === null || words === '') return response;
    return { ...response, text: () => (typeof words === 'string' ? words : JSON.stringify(words)) };
  }

  return {
    isLoginRefused: (response) => response.status === 401 || ruleOf(response)?.means === 'login-expired',
    errorOf: (response, request) => {
      const means = ruleOf(response)?.means;
      if (means === 'done') return 'fine';
      if (means === undefined && response.status >= 200 && response.status < 300)
        return expect === 'json' && isPage(response) ? pageError(response, request) : undefined;
      const worded = withMessage(response);
      if (means === undefined) return errorOfStatus(worded, request, nowMs());
      return errorOf(means, worded, request, nowMs());
    },
  };
}

/** Whether the body is not JSON: a page of a proxy or of a server in maintenance, or an answer that broke off. */
function isPage(response: HttpResponse): boolean {
  return response.bytes.length > 0 && response.jsonIfAny() === undefined;
}

/** The error of a page: the ERP, which answers in JSON, has not answered. */
function pageError(response: HttpResponse, request: HttpRequest): ConnectorError | undefined {
  // As a gateway's 502: who sent the page is not known, nor whether the ERP behind it has ended.
  const error = errorOfStatus({ ...response, status: 502 }, request, 0);
  if (error)
    error.message = error.message.replace('answered 502', `answered ${response.status} with a body that is not JSON`);
  return error;
}

function errorOf(
  means: Exclude<AnswerRule['means'], 'done'>,
  response: HttpResponse,
  request: HttpRequest,
  nowMs: number,
): ConnectorError {
  // The error of a 429 has the text and the Retry-After time that all of these errors need.
  const limited = errorOfStatus({ ...response, status: 429 }, request, nowMs);
  const text = limited?.message.replace('answered 429', `answered ${response.status}`) ?? '';
  switch (means) {
    case 'data':
      return new DataError(text);
    case 'conflict':
      return new ConflictError(text);
    case 'transient':
      return new TransientError(text);
    case 'rate-limited':
      return new RateLimited(text, { retryAfterMs: limited instanceof RateLimited ? limited.retryAfterMs : undefined });
    case 'locked':
      return new LockedError(text);
    case 'auth':
    case 'login-expired':
      return new AuthError(text);
    case 'config':
      return new ConfigError(text);
    case 'unknown':
      return new UnknownOutcome(text);
  }
}

function compileRule({ status, body }: AnswerRule): (response: HttpResponse) => boolean {
  const statuses = status === undefined ? undefined : [status].flat().map(compileStatus);
  const members = Object.entries(body).map(([path, expected]) => ({
    read: compileJsonPath(path),
    matches: compileExpected(expected),
  }));
  return (response) =>
    (statuses === undefined || statuses.some((matches) => matches(response.status))) &&
    members.every(({ read, matches }) => matches(read(response.jsonIfAny())));
}

/** `409`, `4xx` or `500-599`. */
function compileStatus(form: number | string): (status: number) => boolean {
  if (typeof form === 'number') return (status) => status === form;
  const [first = '', last = first] = form.includes('x') ? [`${form[0]}00`, `${form[0]}99`] : form.split('-');
  return (status) => status >= Number(first) && status <= Number(last);
}

function compileExpected(expected: AnswerRule['body'][string]): (value: unknown) => boolean {
  if (typeof expected === 'object' && expected !== null && !Array.isArray(expected)) {
    if ('exists' in expected) return (value) => (value !== undefined && value !== null) === expected.exists;
    const pattern = patternOf(expected.matches);
    return (value) => isSingle(value) && pattern.test(String(value));
  }
  const values = [expected].flat();
  return (value) => values.some((allowed) => isSameText(value, allowed));
}

/** Throws PathError for a text that is not a regular expression. */
export function patternOf(text: string): RegExp {
  try {
    return new RegExp(text, 'u');
  } catch {
    throw new PathError('must be a regular expression');
  }
}

/** Whether two single values are equal, also as texts: YAML may have a number where the ERP has a text. */
export function isSameText(value: unknown, expected: unknown): boolean {
  return (
    value === expected ||
    (isSingle(value) && value !== null && isSingle(expected) && String(value) === String(expected))
  );
}

function isSingle(value: unknown): value is string | number | boolean | null {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value);
}

/**
 * Compiles how the object's reference is read from the answer to a write. The function throws UnknownOutcome when the
 * answer to a create has no reference: `lookup` then finds it.
 */
export function compileReference(form: ReferenceForm): (response: HttpResponse, operation: Operation) => string {
  const read = compileReferenceRead(form);
  return (response, { action, document, reference }) => {
    const answered = action === 'cancel' ? undefined : read(response, document.key);
    if (answered !== undefined) return answered;
    if (reference !== undefined && reference !== '') return reference;
    if (action === 'cancel') return document.key;
    // 202 says that the ERP carries the request out later.
    throw new UnknownOutcome(`the ERP answered ${response.status} without the object's reference`, {
      answered: response.status !== 202,
    });
  };
}

function compileReferenceRead(form: ReferenceForm): (response: HttpResponse, key: string) => string | undefined {
  if (form === 'key') return (_response, key) => key;
  if (form === 'location') return ({ headers }) => lastSegment(headers['location']);
  if ('header' in form) {
    const name = form.header.toLowerCase();
    return ({ headers }) => headers[name] || undefined;
  }
  const read = compileJsonPath(form.body);
  return (response) => referenceText(read(response.jsonIfAny()));
}

/** The last part of a URL's path: 4711 for `https://erp.example.com/orders/4711?x=1`. */
function lastSegment(location: string | undefined): string | undefined {
  const [path = ''] = (location ?? '').split(/[?#]/);
  const segment =
    path
      .replace(/(?<!\/)\/+$/, '')
      .split('/')
      .at(-1) ?? '';
  if (segment === '') return undefined;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** A single value as text; undefined for anything else. */
export function referenceText(value: unknown): string | undefined {
  return isSingle(value) && value !== null && value !== '' ? String(value) : undefined;
}

/** The answer's JSON with each number as the text that the ERP has sent: 12.50 stays so. Undefined for another body. */
export function exactNumbers(response: HttpResponse): unknown {
  return parseWithDigits(response.text());
}
