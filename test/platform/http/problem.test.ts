import { describe, expect, test } from 'vitest';
import { problem } from '#contract/problem.ts';
import { AppError, type ErrorCode } from '#platform/errors.ts';
import { startTestApplication } from './test-application.ts';

/** Serves one path that throws the error. */
async function answerTo(error: unknown) {
  const { url } = await startTestApplication({
    more: (app) =>
      void app.get('/broken', async () => {
        throw error;
      }),
  });
  const answer = await fetch(`${url}/broken`);
  return { status: answer.status, headers: answer.headers, body: problem.parse(await answer.json()) };
}

// From the decisions, "Status codes".
const statuses: Record<ErrorCode, number> = {
  invalid: 400,
  unauthorized: 401,
  forbidden: 403,
  'not-found': 404,
  'method-not-allowed': 405,
  'too-slow': 408,
  conflict: 409,
  'too-large': 413,
  'no-space': 507,
  'unsupported-media': 415,
  'no-such-range': 416,
  'too-many': 429,
  internal: 500,
  unavailable: 503,
};

describe('problem details (RFC 9457)', () => {
  test.each(Object.entries(statuses))('the code "%s" is a problem with status %i', async (code, status) => {
    const { status: sent, headers, body } = await answerTo(new AppError(code as ErrorCode, 'It is like this.'));
    expect(sent).toBe(status);
    expect(headers.get('content-type')).toMatch(/^application\/problem\+json(;|$)/);
    expect(body).toMatchObject({ type: 'about:blank', status });
    expect(body.title).not.toBe('');
    expect(body.detail === 'It is like this.').toBe(code !== 'internal');
    expect(headers.get('www-authenticate')).toBe(status === 401 ? 'Bearer' : null);
    expect(headers.get('retry-after')).toBe(status === 429 || status === 503 ? '5' : null);
    expect(headers.get('x-request-id')).not.toBeNull();
  });

  test.each([
    [0, '1'],
    [1, '1'],
    [1_000, '1'],
    [1_001, '2'],
    [59_500, '60'],
  ])('a retry after %i ms is announced in whole seconds, rounded up, at least one: %s', async (afterMs, header) => {
    const { headers } = await answerTo(
      new AppError('too-many', 'Too many requests.', { recovery: { do: 'retry', afterMs } }),
    );
    expect(headers.get('retry-after')).toBe(header);
  });

  test('503 and 429 say when to try again, whatever the recovery of the error is', async () => {
    const { headers } = await answerTo(new AppError('unavailable', 'Away.', { recovery: { do: 'halt' } }));
    expect(headers.get('retry-after')).toMatch(/^[1-9][0-9]*$/);
  });

  test('issues are listed with their paths, at most 100', async () => {
    const issues = Array.from({ length: 150 }, (_, index) => ({ path: `lots[${index}]`, message: 'must be a string' }));
    const { body } = await answerTo(new AppError('invalid', 'The body is not valid.', { issues }));
    expect(body.errors).toHaveLength(100);
    expect(body.errors?.[99]).toEqual({ path: 'lots[99]', message: 'must be a string' });
  });

  test('the text for the log does not reach the caller', async () => {
    const { body } = await answerTo(
      new AppError('conflict', 'It exists already.', { message: 'duplicate key in pg_class', cause: new Error('x') }),
    );
    expect(JSON.stringify(body)).not.toMatch(/pg_class|cause|recovery/);
  });
});
