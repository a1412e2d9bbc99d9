/**
 * The service and a process for each role of the bridge, on one database: a story is played, and each of its awards must
 * reach the ERP exactly once, whichever process does the work.
 */
import { expect } from 'vitest';
import { systemClock } from '#platform/clock.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { freePort } from '../harness/free-port.ts';
import type { TestDatabase } from '../harness/test-database.ts';
import { readServiceState, readUnfinished } from './awards-in-sql.ts';
import { createSource, ledgerConfiguration, ledgerFile } from './ledger-bridge.ts';
import { replayLedger } from './ledger-connector.ts';
import { openClient } from './players.ts';
import { createInstallation, expectGracefulEnd, lineOf } from './program-process.ts';

type Role = 'receive' | 'pull' | 'push';

interface RolesOptions {
  readonly db: TestDatabase;
  /** How the programs reach it; default: as the test does. */
  readonly databaseUrl?: string;
  readonly roles: readonly Role[];
  readonly environment?: Record<string, string>;
  /** What the processes of a role have beside it. */
  readonly environmentOf?: (role: Role) => Record<string, string>;
  readonly story: { readonly events: number; readonly suppliers: number; readonly lots: number };
  /** Called when all programs are ready. */
  readonly beforeStory?: () => Promise<unknown>;
  /** Called when all is delivered, with the base URLs of the programs' own pages. */
  readonly afterStory?: (urls: readonly string[]) => Promise<void>;
}

/** Returns what the ERP was called for more than once; nothing, if all is well. */
export async function deliverByRoles(options: RolesOptions): Promise<readonly unknown[]> {
  const { db, roles, environment = {}, story } = options;
  const databaseUrl = options.databaseUrl ?? db.url;
  const serviceOf = await createInstallation({ databaseUrl });
  const service = serviceOf.start(['service', '--port', '0'], environment);
  const baseUrl = /http\S+/.exec(await lineOf(service, /ready/))?.[0] ?? '';
  const ports = await Promise.all(
    roles.map(async (role) => ({ role, port: String(await freePort()), consolePort: String(await freePort()) })),
  );
  const receivers = ports.filter(({ role }) => role === 'receive');
  const source = await createSource(
    serviceOf,
    baseUrl,
    receivers.map(({ port }) => `https://localhost:${port}/webhooks/main`),
  );
  const configuration = ledgerConfiguration(source);
  const bridge = await createInstallation({ databaseUrl, dataDir: serviceOf.dataDir, configuration });
  const programs = ports.map(({ role, port, consolePort }) =>
    bridge.start(['bridge', '--role', role], {
      ...environment,
      ...options.environmentOf?.(role),
      SOURCING__BRIDGE__PORT: port,
      SOURCING__BRIDGE__CONSOLE_PORT: consolePort,
    }),
  );
  for (const program of programs) await lineOf(program, /ready/);
  await options.beforeStory?.();
  await playStory({
    client: await openClient(baseUrl, source.apiKey),
    clock: systemClock,
    seed: 3,
    ...story,
    pauseMs: 0,
    print: () => undefined,
  });
  const { awards, reopened } = await readServiceState(db.url);
  expect(Object.keys(awards).length).toBeGreaterThan(2);
  // Each event was played to its end.
  expect(reopened).toEqual([]);
  await expect
    .poll(async () => ({ held: replayLedger(ledgerFile(bridge)).held, unfinished: await readUnfinished(db.url) }), {
      timeout: 60_000,
      interval: 100,
    })
    .toEqual({ held: awards, unfinished: [] });
  const received = await db.database.query('select from bridge.inbox');
  expect(received.length).toBeGreaterThan(0);
  await options.afterStory?.([baseUrl, ...ports.map(({ consolePort }) => `http://127.0.0.1:${consolePort}`)]);
  await Promise.all([...programs, service].map(expectGracefulEnd));
  // At most one object for each award at any time, and no call that changed nothing.
  return replayLedger(ledgerFile(bridge)).doubled;
}
