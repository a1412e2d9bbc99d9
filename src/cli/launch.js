#!/usr/bin/env node
import { existsSync, readFileSync } from 'node:fs';

// Plain JavaScript, which an old Node reads, too: it cannot load TypeScript, and would print a stack trace.
const { engines } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
const needed = engines.node.replace('>=', '');
const [major, minor] = process.versions.node.split('.').map(Number);
const [majorMin, minorMin = 0] = needed.split('.').map(Number);
if (major < majorMin || (major === majorMin && minor < minorMin)) {
  const remedy = existsSync(new URL('main.ts', import.meta.url))
    ? 'npm brings the right one: run "npm ci" with install scripts allowed, then "npm start" or "npm run -s cli -- <command>".'
    : 'install a newer one from https://nodejs.org, or run "npx --package node@24 --package sourcing-bridge sourcing-bridge".';
  console.error(
    `sourcing-bridge needs Node ${needed} or newer, and this is ${process.version} (${process.execPath}): ${remedy}`,
  );
  process.exitCode = 2;
} else {
  const { prepareNode } = await import('./prepare-node.js');
  prepareNode();
  await import('./main.ts');
}
