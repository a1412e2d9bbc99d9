/** Records the result of each check for the table of connectors. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ConformanceTarget } from './target.ts';

export interface CheckRecord {
  readonly name: string;
  readonly result: 'passed' | 'failed' | 'not applicable';
  /** Why the check is not applicable. */
  readonly reason?: string;
}

/**
 * Records results: of a check that a runner tries again, the last one. After each check, also a failed one, it writes all
 * results so far to `<CONFORMANCE_RESULTS>/<connector>/<against>.json`; checks that did not run are missing there. Without
 * that environment variable it writes nothing.
 */
export function createResults({ connector, against, verified, kinds }: ConformanceTarget) {
  const checks = new Map<string, CheckRecord>();
  return {
    add(check: CheckRecord): void {
      checks.set(check.name, check);
      const root = process.env['CONFORMANCE_RESULTS'];
      if (root === undefined || root === '') return;
      const folder = join(root, connector.name);
      const { capabilities } = connector;
      const summary = {
        connector: connector.name,
        against,
        verified,
        kinds: kinds ?? capabilities.kinds,
        reads: capabilities.reads ?? [],
        checks: [...checks.values()],
      };
      mkdirSync(folder, { recursive: true });
      const name = against.replaceAll(/[^A-Za-z0-9.]+/g, '-').replaceAll(/^[-.]+|(?<![-.])[-.]+$/g, '');
      writeFileSync(join(folder, `${name === '' ? 'unnamed' : name}.json`), `${JSON.stringify(summary, null, 2)}\n`);
    },
  };
}
