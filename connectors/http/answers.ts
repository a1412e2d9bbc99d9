/** Compiles the settings that say what an ERP's answers mean: errors, references and values to compare. */
import {
  AuthError,
  ConfigError,
  ConflictError,
  type ConnectorError,
  compileJsonPath,
  composed,
  DataError,
  errorOfStatus,
  type HttpRequest,
  type HttpResponse,
  type HttpSettings,
  LockedError,
  type Operation,
  PathError,
  parseWithDigits,
  RateLimited,
  TransientError,
  UnknownOutcome,
} from 'sourcing-bridge/connector';
import type { AnswerRule, Conditions, ReferenceForm, Settings } from './settings.ts';
import { at, type Captured } from './templates.ts';

/** A request with rules of its own, which come before those of the settings. */
export interface RuledRequest extends HttpRequest {
  readonly rules?: ReturnType<typeof compileRules>;
}

/** Compiles what answers mean; the first rule that matches counts. Throws PlacedFault. */
export function compileRules(rules: readonly AnswerRule[]) {
  return rules.map((rule, index) => at(index, () => ({ means: rule.means, matches: compileRule(rule) })));
}

/** Compiles the rules of the settings. `nowMs` is the clock that `Retry-After` dates are compared with. */
export function compileAnswers(
  { answers: rules, message, expect }: Pick<Settings, 'answers' | 'message' | 'expect'>,
  nowMs: () => number,
): Required<Pick<HttpSettings, 'errorOf' | 'isLoginRefused'>> {
  const compiled = compileRules(rules);
  const readMessage = message === undefined ? undefined : compileJsonPath(message);
  // The body is parsed only when a rule needs it.
  const ruleOf = (response: HttpResponse, request?: RuledRequest) =>
    [...(request?.rules ?? []), ...compiled].find(({ matches }) => matches(response));

  /** The response with the ERP's own message as its text, where it has one. */
  function withMessage(response: HttpResponse): HttpResponse {
    const words = readMessage?.(response.jsonIfAny());
    if (words === undefined || words === null || words === '') return response;
    return { ...response, text: () => (typeof words === 'string' ? words : JSON.stringify(words)) };
  }

  return {
    isLoginRefused: (response) => response.status === 401 || ruleOf(response)?.means === 'login-expired',
    errorOf: (response, request) => {
      const means = ruleOf(response, request)?.means;
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

const errors = {
  data: DataError,
  conflict: ConflictError,
  transient: TransientError,
  'rate-limited': RateLimited,
  locked: LockedError,
  auth: AuthError,
  'login-expired': AuthError,
  config: ConfigError,
  unknown: UnknownOutcome,
};

function errorOf(
  means: Exclude<AnswerRule['means'], 'done'>,
  response: HttpResponse,
  request: HttpRequest,
  nowMs: number,
): ConnectorError {
  // The error of a 429 has the text and the Retry-After time that all of these errors need.
  const limited = errorOfStatus({ ...response, status: 429 }, request, nowMs);
  const text = limited?.message.replace('answered 429', `answered ${response.status}`) ?? '';
  return new errors[means](text, limited instanceof RateLimited ? { retryAfterMs: limited.retryAfterMs } : {});
}

function compileRule({ status, body }: AnswerRule): (response: HttpResponse) => boolean {
  const statuses = status === undefined ? undefined : [status].flat().map(compileStatus);
  if (status === undefined && Object.keys(body).length === 0) throw new PathError('must have a status, a body or both');
  const members = Object.entries(body).map(([path, expected]) =>
    at('body', () => at(path, () => ({ read: compileJsonPath(path), matches: compileExpected(expected) }))),
  );
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

/** Compiles the condition that a value has to meet. Throws PathError for a wrong pattern. */
export function compileExpected(expected: Conditions[string]): (value: unknown) => boolean {
  if (typeof expected === 'object' && expected !== null && !Array.isArray(expected)) {
    if ('exists' in expected) return (value) => (value !== undefined && value !== null) === expected.exists;
    const pattern = at('matches', () => patternOf(expected.matches));
    return (value) => isSingle(value) && pattern.test(String(value));
  }
  const values = [expected].flat();
  return (value) => values.some((allowed) => isSameText(value, allowed));
}

/** Throws PathError for a text that is not a regular expression. */
function patternOf(text: string): RegExp {
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
    (isSingle(value) && value !== null && isSingle(expected) && composed(String(value)) === composed(String(expected)))
  );
}

function isSingle(value: unknown): value is string | number | boolean | null {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value);
}

/** What is known of a write that has ended: the answer to its last request, unless that was not sent. */
export interface Written {
  readonly response: HttpResponse | undefined;
  readonly captured: Captured;
}

/**
 * Compiles how the object's reference is read after a write. The function throws UnknownOutcome when a create leaves it
 * unknown: `lookup` then finds it.
 */
export function compileReference(form: ReferenceForm): (written: Written, operation: Operation) => string {
  const read = compileReferenceRead(form);
  return (written, { action, document, reference }) => {
    const answered = action === 'cancel' ? undefined : read(written, document.key);
    if (answered !== undefined) return answered;
    if (reference !== undefined && reference !== '') return reference;
    if (action === 'cancel') return document.key;
    const { status } = written.response ?? {};
    // 202 says that the ERP carries the request out later.
    throw new UnknownOutcome(`the ERP answered ${status ?? ''} without the object's reference`, {
      answered: status !== 202,
    });
  };
}

function compileReferenceRead(form: ReferenceForm): (written: Written, key: string) => string | undefined {
  if (form === 'key') return (_written, key) => key;
  if (form === 'location') return ({ response }) => lastSegment(response?.headers['location']);
  if ('captured' in form) return ({ captured }) => captured[form.captured];
  if ('header' in form) {
    const name = form.header.toLowerCase();
    return ({ response }) => response?.headers[name] || undefined;
  }
  const read = at('reference', () => at('body', () => compileJsonPath(form.body)));
  return ({ response }) => referenceText(read(response?.jsonIfAny()));
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
