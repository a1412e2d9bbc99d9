/** Sends rubbish at an endpoint, shot after shot, and sees to it that a refusal changes nothing and that what is taken ends well. */
import * as fc from 'fast-check';
import { expect } from 'vitest';
import type { HttpAnswer } from '../../harness/request.ts';
import { checkAnswer, type Shot, send, shotText } from './send.ts';
import type { World } from './world.ts';

/** A shot and what is to be true of its answer beyond what is true of every answer. */
export interface Round {
  readonly shot: Shot;
  readonly check?: (answer: HttpAnswer) => void;
}

/** `RUBBISH_RUNS=5000`: so many shots of each kind at each endpoint. */
export const runsOf = (few: number) => Number(process.env['RUBBISH_RUNS'] ?? few);

/** Of every object: the service runs in this process. */
const inherited = Reflect.ownKeys(Object.prototype);

const changes = (shot: Shot) => !['GET', 'HEAD', 'OPTIONS'].includes(shot.method);

/**
 * Fires `runs` rounds. Fails with the round, and with what repeats it, when an answer is not what it must be, when the
 * service logs an error or stops answering, when the database is not as before after refusals, or when something has
 * reached the prototype of all objects.
 */
export async function fire(world: World, rounds: fc.Arbitrary<Round>, runs: number): Promise<void> {
  await world.restore();
  const before = await world.digest();
  let first: string | undefined;
  const changed = async () => {
    const now = await world.digest();
    return Object.keys(now).filter((table) => now[table] !== before[table]);
  };
  await fc.assert(
    fc.asyncProperty(rounds, async ({ shot, check }) => {
      const answer = await send(world, shot).catch((error: unknown) => {
        throw new Error(`${String(error)}\n${shotText(shot)}`);
      });
      try {
        checkAnswer(world, shot, answer);
        check?.(answer);
        if (answer.status < 400 && changes(shot)) {
          await world.settled();
          await world.restore();
        } else {
          const tables = await changed();
          if (tables.length > 0) throw new Error(`it changed ${tables.join(', ')}`);
        }
        const complaints = world.complaints();
        if (complaints.length > 0) throw new Error(`the service complains: ${complaints.join('\n').slice(0, 3_000)}`);
      } catch (error) {
        const told = error instanceof Error ? error.message : String(error);
        first ??= told;
        await world.settled().catch(() => undefined);
        await world.restore();
        const text = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body);
        // What is told in the end is the smallest round that fails, which may do so in another way.
        const earlier = told === first ? '' : `\n(at first: ${first})`;
        throw new Error(`${told}${earlier}\n\n${shotText(shot)}\n\n${answer.status} ${text.slice(0, 2_000)}`, {
          cause: error,
        });
      }
    }),
    { numRuns: runs, interruptAfterTimeLimit: 3_600_000 },
  );
  expect(Reflect.ownKeys(Object.prototype)).toEqual(inherited);
  const health = await send(world, { method: 'GET', path: '/healthz', headers: {} });
  expect(health.status).toBe(200);
}
