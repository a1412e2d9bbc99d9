/** Requests over HTTP, as any client sends them. */
import { closeAtEnd } from './close-at-end.ts';

export interface HttpAnswer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into bodies of every shape
  // oxlint-disable-next-line typescript/no-explicit-any
  body: any;
}

type AnswerCheck = (method: string, url: string, answer: HttpAnswer) => void;

/** The checks by the origin of the service. */
const checks = new Map<string, AnswerCheck>();

/** Calls `check` with each answer of this service until the test file ends; it throws when the answer is wrong. */
export function checkAnswersOf(serviceUrl: string, check: AnswerCheck): void {
  const { origin } = new URL(serviceUrl);
  checks.set(origin, check);
  closeAtEnd(() => checks.delete(origin));
}

/**
 * Sends one request. The body is sent as JSON unless it is text or bytes, and the answer's body is parsed if it is
 * JSON. Fails when the answer of a test service is not as its OpenAPI document says.
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
