/**
 * `node src/cli/compile-ahead.js --help`: loads what the programs load, so that the compile cache holds it, and prints the
 * help. For an image whose file system is read-only when it runs: a module that is missing there is compiled at each
 * start, and the compiler of TypeScript stays in memory.
 */
import { readdirSync } from 'node:fs';
import { prepareNode } from './prepare-node.js';

prepareNode();
for (const file of readdirSync(new URL('commands/', import.meta.url))) await import(`./commands/${file}`);
for (const name of readdirSync(new URL('../../connectors/', import.meta.url)))
  await import(`../../connectors/${name}/index.ts`);
// Also what is loaded only where it is used.
for (const door of [
  '#bridge/alerts/start-alerts.ts',
  '#bridge/create-bridge.ts',
  '#bridge/flows/open-flows.ts',
  '#bridge/flows/register-flows.ts',
  '#bridge/intake/open-intakes.ts',
  '#bridge/intake/register-intakes.ts',
  '#bridge/intake/start-intake.ts',
  '#bridge/pull/start-pull.ts',
  '#bridge/push/start-push.ts',
  '#bridge/receive/start-receive.ts',
  '#bridge/reconcile/start-reconcile.ts',
  '#bridge/status/samples.ts',
  '#console/access/console-access.ts',
  '#console/mount-console.ts',
  '#console/mount-status.ts',
  '#platform/queue.ts',
  '#platform/queue/redis-backend.ts',
  '#service/create-service.ts',
  './main.ts',
])
  await import(door);
