/**
 * `node src/cli/compile-ahead.js --help`: loads what the programs load, so that the compile cache holds it, and prints the
 * help. For an image whose file system is read-only when it runs: a module that is missing there is compiled at each
 * start, and the compiler of TypeScript stays in memory.
 */
import { readdirSync } from 'node:fs';
import { prepareNode } from './prepare-node.js';

prepareNode();
for (const file of readdirSync(new URL('commands/', import.meta.url))) await import(`./commands/${file}`);
for (const door of [
  '#bridge/create-bridge.ts',
  '#console/access/console-access.ts',
  '#console/mount-console.ts',
  '#platform/queue.ts',
  '#service/create-service.ts',
  './main.ts',
])
  await import(door);
