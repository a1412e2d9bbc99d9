/** Sends rubbish at an endpoint, request after request, and sees to it that a refusal changes nothing and that what is taken ends well. */
import * as fc from 'fast-check';
import { expect } from 'vitest';
import type { HttpAnswer } from '../../harness/request.ts';
import type { FuzzFixture } from './fuzz-fixture.ts';
import { checkAnswer, type RawRequest, requestText, send } from './send-request.ts';

/** A request and what is to be true of its answer beyond what is true of every answer. */
export interface FuzzCase {
  readonly request: RawRequest;
  readonly check?: (answer: HttpAnswer) => void;
}

/** `FUZZ_RUNS=5000`: so many requests of each kind at each endpoint. */
export const runsOf = (few: number) => Number(process.env['FUZZ_RUNS'] ?? few);

/** Of every object: the service runs in this process. */
const inherited = Reflect.ownKeys(Object.prototype);

const changes = (request: RawRequest) => !['GET', 'HEAD', 'OPTIONS'].includes(request.method);

/**
 * Fires `runs` cases. Fails with the round, and with what repeats it, when an answer is not what it must be, when the
 * service logs an error or stops answering, when the database is not as before after refusals, or when something has
 * reached the prototype of all objects.
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
          await fixture.settled();
          await fixture.restore();
        } else {
          const tables = await changed();
          if (tables.length > 0) throw new Error(`it changed ${tables.join(', ')}`);
        }
        const takeLoggedProblems = fixture.takeLoggedProblems();
        if (takeLoggedProblems.length > 0)
          throw new Error(`the service complains: ${takeLoggedProblems.join('\n').slice(0, 3_000)}`);
      } catch (error) {
        const told = error instanceof Error ? error.message : String(error);
        first ??= told;
        await fixture.settled().catch(() => undefined);
        await fixture.restore();
        const text = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body);
        // What is told in the end is the smallest round that fails, which may do so in another way.
        const earlier = told === first ? '' : `\n(at first: ${first})`;
        throw new Error(`${told}${earlier}\n\n${requestText(request)}\n\n${answer.status} ${text.slice(0, 2_000)}`, {
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
