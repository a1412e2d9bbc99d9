#!/usr/bin/env node
import { existsSync, readFileSync } from 'node:fs';
import module from 'node:module';
import { fileURLToPath } from 'node:url';

// Plain JavaScript, which an old Node reads, too: it cannot load TypeScript, and would print a stack trace.
const { engines } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
const needed = engines.node.replace('>=', '');
const isRepository = existsSync(new URL('main.ts', import.meta.url));
const [major, minor] = process.versions.node.split('.').map(Number);
const [majorMin, minorMin = 0] = needed.split('.').map(Number);
if (major < majorMin || (major === majorMin && minor < minorMin)) {
  const remedy = isRepository
    ? 'npm brings the right one: run "npm ci" with install scripts allowed, then "npm start" or "npm run -s cli -- <command>".'
    : 'install a newer one from https://nodejs.org, or run "npx --package node@24 --package sourcing-bridge sourcing-bridge".';
  console.error(
    `sourcing-bridge needs Node ${needed} or newer, and this is ${process.version} (${process.execPath}): ${remedy}`,
  );
  process.exitCode = 2;
} else {
  // TypeScript starts in half of the time with this cache. It is below this package: whoever may write there could change
  // the program anyway. Where nobody may write, Node goes on without it.
  if (isRepository)
    module.enableCompileCache(
      fileURLToPath(new URL('../../node_modules/.cache/sourcing-bridge/compiled', import.meta.url)),
    );
  await import('./main.ts');
}
