/**
 * Modules that the code under test imports, replaced for simulated processes: the driver's pool, listening, migrations
 * and the loading of connectors. Code that runs in no simulated process gets the real ones. Import this file first.
 */

import type { RequestListener } from 'node:http';
import type * as Pg from 'pg';
import { vi } from 'vitest';
import type * as LoadConnector from '#bridge/connectors/load-connector.ts';
import type { Connector } from '#connector/connector.ts';
import type * as Migrations from '#platform/database/migrations.ts';

vi.mock('pg', async (importOriginal) => {
  const actual = await importOriginal<typeof Pg>();
  const { currentProcess } = await import('./world.ts');
  const { SimulatedPool } = await import('./simulated-pool.ts');
  const Pool = function choosePool(options: object) {
    return currentProcess.getStore() ? new SimulatedPool() : new actual.Pool(options);
  };
  return { ...actual, Pool };
});

vi.mock('#platform/database/migrations.ts', async (importOriginal) => {
  const actual = await importOriginal<typeof Migrations>();
  const { currentProcess } = await import('./world.ts');
  return {
    ...actual,
    migrate: async (...args: Parameters<typeof actual.migrate>) =>
      currentProcess.getStore() ? undefined : actual.migrate(...args),
  };
});

vi.mock('#platform/http/server.ts', async () => {
  const { listenIn } = await import('./simulated-network.ts');
  return { listen: async (listener: RequestListener, options: { tls?: object }) => listenIn(listener, options) };
});

vi.mock('#bridge/connectors/load-connector.ts', async (importOriginal) => {
  const actual = await importOriginal<typeof LoadConnector>();
  const { connectorOf } = await import('./simulated-network.ts');
  return { ...actual, loadConnector: async (name: string): Promise<Connector> => connectorOf(name) };
});
