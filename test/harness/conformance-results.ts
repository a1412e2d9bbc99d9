/**
 * The results of the conformance kit during a test run: the folder to which the kit writes them, and
 * docs/connectors.md, which is renewed from them when no test failed. A run of a few files renews the rows of the
 * connectors whose kit it ran.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Vitest } from 'vitest/node';
import { conformanceChecks } from '#connector/testing/conformance.ts';
import { type ConformanceResult, renewTables } from './conformance-table.ts';

const root = join(import.meta.dirname, '..', '..');
const document = join(root, 'docs', 'connectors.md');

/**
 * Sets CONFORMANCE_RESULTS to the folder, and returns the function to call at the end of the run. When the variable is
 * set already, another program collects the results, and nothing is renewed.
 */
export async function collectConformance(vitest: Vitest): Promise<() => Promise<void>> {
  if (process.env['CONFORMANCE_RESULTS']) return async () => undefined;
  const folder = await mkdtemp(join(tmpdir(), 'conformance-results-'));
  process.env['CONFORMANCE_RESULTS'] = folder;
  return async () => {
    try {
      if (wasGreen(vitest)) await renew(folder);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };
}

/** No test failed, and none was left out by its name: then the kit ran completely where it ran. */
function wasGreen(vitest: Vitest): boolean {
  const { state } = vitest;
  if (vitest.getGlobalTestNamePattern()) return false;
  if (state.getCountOfFailedTests() > 0 || state.getUnhandledErrors().length > 0) return false;
  return state.getTestModules().every((module) => module.state() === 'passed' || module.state() === 'skipped');
}

async function renew(folder: string): Promise<void> {
  const results = await readResults(folder);
  const entries = await readdir(join(root, 'connectors'), { withFileTypes: true });
  const connectors = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  const committed = await readFile(document, 'utf8');
  const renewed = renewTables(committed, results, { connectors, checks: conformanceChecks });
  if (renewed === committed) return;
  await writeFile(document, renewed);
  console.log('docs/connectors.md has changed with the results of this run: commit it.');
}

async function readResults(folder: string): Promise<ConformanceResult[]> {
  const files = await readdir(folder, { recursive: true });
  const texts = files.filter((file) => file.endsWith('.json')).map((file) => readFile(join(folder, file), 'utf8'));
  return (await Promise.all(texts)).map((text) => JSON.parse(text) as ConformanceResult);
}
