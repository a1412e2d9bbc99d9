/**
 * Sends random input to an endpoint, request after request, and checks that a refusal changes nothing and that accepted
 * input ends well.
 */
import * as fc from 'fast-check';
import { expect } from 'vitest';
import type { HttpAnswer } from '../../harness/request.ts';
import type { FuzzFixture } from './fuzz-fixture.ts';
import { checkAnswer, type RawRequest, requestText, send } from './send-request.ts';

/** A request, and a check of its answer beyond the checks of every answer. */
export interface FuzzCase {
  readonly request: RawRequest;
  readonly check?: (answer: HttpAnswer) => void;
}

/** The number of requests of each kind to each endpoint; `FUZZ_RUNS=5000` sets another number. */
export const runsOf = (defaultRuns: number) => Number(process.env['FUZZ_RUNS'] ?? defaultRuns);

/** The members of every object. The service runs in this process, so a polluted prototype shows here. */
const inherited = Reflect.ownKeys(Object.prototype);

const changes = (request: RawRequest) => !['GET', 'HEAD', 'OPTIONS'].includes(request.method);

/**
 * Sends the requests of `runs` cases. Fails, with the request and the seed that repeats it, when an answer is not
 * allowed, when the service logs a problem or stops answering, when a refusal has changed the database, or when the
 * prototype of all objects was changed.
 */
export async function fuzzEndpoint(fixture: FuzzFixture, cases: fc.Arbitrary<FuzzCase>, runs: number): Promise<void> {
  await fixture.restore();
  const before = await fixture.digest();
  let first: string | undefined;
  const changed = async () => {
    const now = await fixture.digest();
    return Object.keys(now).filter((table) => now[table] !== before[table]);
  };
  await fc.assert(
    fc.asyncProperty(cases, async ({ request, check }) => {
      const answer = await send(fixture, request).catch((error: unknown) => {
        throw new Error(`${String(error)}\n${requestText(request)}`);
      });
      try {
        checkAnswer(fixture, request, answer);
        check?.(answer);
        if (answer.status < 400 && changes(request)) {
          await fixture.waitUntilIdle();
          await fixture.restore();
        } else {
          const tables = await changed();
          if (tables.length > 0) throw new Error(`it changed ${tables.join(', ')}`);
        }
        const problems = fixture.takeLoggedProblems();
        if (problems.length > 0) throw new Error(`the service logged: ${problems.join('\n').slice(0, 3_000)}`);
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        first ??= message;
        await fixture.waitUntilIdle().catch(() => undefined);
        await fixture.restore();
        const text = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body);
        // fast-check reports the smallest case that fails, which may fail in another way than the first one.
        const earlier = message === first ? '' : `\n(the first failure: ${first})`;
        throw new Error(`${message}${earlier}\n\n${requestText(request)}\n\n${answer.status} ${text.slice(0, 2_000)}`, {
          cause: error,
        });
      }
    }),
    { numRuns: runs, interruptAfterTimeLimit: 3_600_000 },
  );
  expect(Reflect.ownKeys(Object.prototype)).toEqual(inherited);
  const health = await send(fixture, { method: 'GET', path: '/healthz', headers: {} });
  expect(health.status).toBe(200);
}
