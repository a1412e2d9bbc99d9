/** Requests over HTTP, as any client sends them. */
import { closeAfterFile } from './after-file.ts';

export interface HttpAnswer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into bodies of every shape
  // oxlint-disable-next-line typescript/no-explicit-any
  body: any;
}

type AnswerCheck = (method: string, url: string, answer: HttpAnswer) => void;

/** By the origin of the service. */
const checks = new Map<string, AnswerCheck>();

/** Until the test file ends, `check` sees each answer of this service; it throws when the answer is wrong. */
export function checkAnswersOf(serviceUrl: string, check: AnswerCheck): void {
  const { origin } = new URL(serviceUrl);
  checks.set(origin, check);
  closeAfterFile(() => checks.delete(origin));
}

/**
 * One request; the body is sent as JSON unless it is text or bytes already, and the answer's is read as JSON if it is.
 * Fails when a test service answers what its OpenAPI document does not say.
 */
export async function request(
  method: string,
  url: string,
  options: { key?: string; body?: unknown; headers?: Record<string, string> } = {},
): Promise<HttpAnswer> {
  const raw = typeof options.body === 'string' || options.body instanceof Uint8Array;
  const answer = await fetch(url, {
    method,
    headers: {
      ...(options.key === undefined ? {} : { authorization: `Bearer ${options.key}` }),
      ...(options.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...options.headers,
    },
    ...(options.body === undefined ? {} : { body: raw ? (options.body as string) : JSON.stringify(options.body) }),
    redirect: 'manual',
  });
  const text = await answer.text();
  const isJson = answer.headers.get('content-type')?.includes('json') === true;
  const seen = {
    status: answer.status,
    headers: answer.headers,
    body: isJson && text !== '' ? JSON.parse(text) : text,
  };
  checks.get(new URL(url).origin)?.(method, url, seen);
  return seen;
}
