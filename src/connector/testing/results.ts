/** Keeps what each check has found, for the table of connectors. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ConformanceTarget } from './target.ts';

export interface CheckRecord {
  readonly name: string;
  readonly result: 'passed' | 'failed' | 'not applicable';
  /** Why it is not applicable. */
  readonly reason?: string;
}

/**
 * Writes all that is known after each check to `<CONFORMANCE_RESULTS>/<connector>/<against>.json`, also when it failed:
 * what was not run does not stand there. Without that environment variable nothing is written.
 */
export function createResults({ connector, against, verified, kinds }: ConformanceTarget) {
  const checks: CheckRecord[] = [];
  return {
    add(check: CheckRecord): void {
      checks.push(check);
      const root = process.env['CONFORMANCE_RESULTS'];
      if (root === undefined || root === '') return;
      const folder = join(root, connector.name);
      const { capabilities } = connector;
      const shown = {
        connector: connector.name,
        against,
        verified,
        kinds: kinds ?? capabilities.kinds,
        reads: capabilities.reads ?? [],
        checks,
      };
      mkdirSync(folder, { recursive: true });
      const name = against.replaceAll(/[^A-Za-z0-9.]+/g, '-').replaceAll(/^[-.]+|[-.]+$/g, '');
      writeFileSync(join(folder, `${name === '' ? 'unnamed' : name}.json`), `${JSON.stringify(shown, null, 2)}\n`);
    },
  };
}
