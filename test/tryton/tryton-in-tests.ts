/**
 * Tryton for a test file: on SQLite, or with TRYTON_BACKEND=postgresql on the test run's own server. Where Tryton cannot
 * be had, the file's tests are skipped, and say why.
 */
import { describe, inject } from 'vitest';
import { closeAfterFile } from '../harness/after-file.ts';
import { installTryton } from './install-tryton.ts';
import { prepareTryton, startTryton, type TrytonBackend, type TrytonServer } from './tryton-server.ts';

const tryton = await installTryton();
// Not in a hook: to prepare the first database of a run takes 20 s, and a minute on a busy machine.
// oxlint-disable-next-line no-console -- whoever runs the tests has to know what was not tried
if ('missing' in tryton) console.warn(`The tests on Tryton are skipped. There is none here: ${tryton.missing}`);
else await prepareTryton(tryton, backendOf(chosenKind()));

/** `describe` where there is a Tryton; else its tests are skipped, and their title says why. */
export function describeTryton(title: string, tests: () => void): void {
  const why = 'missing' in tryton ? ` [skipped, there is no Tryton: ${tryton.missing}]` : '';
  // oxlint-disable-next-line vitest/valid-title, vitest/valid-describe-callback -- they are the caller's
  describe.skipIf(why !== '')(title + why, tests);
}

/** Starts a server that is stopped after the file. */
export async function startTestTryton(kind: TrytonBackend['kind'] = chosenKind()): Promise<TrytonServer> {
  if ('missing' in tryton) throw new Error(`There is no Tryton: ${tryton.missing}`);
  const server = await startTryton(tryton, backendOf(kind));
  closeAfterFile(() => server.stop());
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
