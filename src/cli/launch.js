import module from 'node:module';
import { join } from 'node:path';

// Plain JavaScript, which an old Node reads, too: it cannot load TypeScript, and would print a stack trace.
const nodeMin = 24;
const [major] = process.versions.node.split('.');
if (Number(major) < nodeMin) {
  console.error(
    `sourcing-bridge needs Node ${nodeMin} or newer, and this is ${process.version} (${process.execPath}). npm brings the ` +
      'right one: run "npm ci" with install scripts allowed, then "npm start" or "npm run -s cli -- <command>".',
  );
  process.exitCode = 2;
} else {
  // Halves the time to start. Below this package, because whoever may write there could change the program anyway; where
  // nobody may write, Node goes on without it.
  module.enableCompileCache(join(import.meta.dirname, '../../node_modules/.cache/sourcing-bridge/compiled'));
  await import('./main.ts');
}
