/**
 * Tryton for a test file: on SQLite, or with TRYTON_BACKEND=postgresql on the test run's own PostgreSQL server. If
 * there is no Tryton, the file's tests are skipped, and their title says why.
 */
import { describe, inject } from 'vitest';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { installTryton } from './install-tryton.ts';
import { prepareTryton, startTryton, type TrytonBackend, type TrytonServer } from './tryton-server.ts';

const tryton = await installTryton();
// Not in a hook, because of its timeout: preparing the first database takes 20 s, and a minute on a busy machine.
if ('missing' in tryton)
  // oxlint-disable-next-line no-console -- the developer has to know which tests did not run
  console.warn(`The tests with Tryton are skipped, because there is no Tryton: ${tryton.missing}`);
else await prepareTryton(tryton, backendOf(chosenKind()));

/** Like `describe`; if there is no Tryton, its tests are skipped, and the title says why. */
export function describeTryton(title: string, tests: () => void): void {
  const why = 'missing' in tryton ? ` [skipped, there is no Tryton: ${tryton.missing}]` : '';
  // oxlint-disable-next-line vitest/valid-title, vitest/valid-describe-callback -- the caller passes both
  describe.skipIf(why !== '')(title + why, tests);
}

/** Starts a server and stops it after the test file. Rejects if there is no Tryton. */
export async function startTestTryton(kind: TrytonBackend['kind'] = chosenKind()): Promise<TrytonServer> {
  if ('missing' in tryton) throw new Error(`There is no Tryton: ${tryton.missing}`);
  const server = await startTryton(tryton, backendOf(kind));
  closeAtEnd(() => server.stop());
  return server;
}

function backendOf(kind: TrytonBackend['kind']): TrytonBackend {
  if (kind === 'sqlite') return { kind };
  return { kind, url: inject('databaseUrl'), prefix: `${inject('databasePrefix')}tryton_` };
}

function chosenKind(): TrytonBackend['kind'] {
  const named = process.env['TRYTON_BACKEND'] ?? 'sqlite';
  if (named === 'sqlite' || named === 'postgresql') return named;
  throw new Error(`TRYTON_BACKEND is "${named}"; it is sqlite or postgresql.`);
}
