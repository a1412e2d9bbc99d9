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
const { loadAllParts } = await import('#bridge/part-modules.ts');
await loadAllParts();
for (const door of [
  '#bridge/create-bridge.ts',
  '#bridge/run-once.ts',
  '#console/access/console-access.ts',
  '#console/mount-console.ts',
  '#console/mount-status.ts',
  '#platform/file-storage/s3-storage.ts',
  '#platform/queue.ts',
  '#platform/queue/redis-backend.ts',
  '#platform/telemetry/otlp-backend.ts',
  '#service/create-service.ts',
  './main.ts',
])
  await import(door);
