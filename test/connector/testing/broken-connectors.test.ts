import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { DocumentKind } from '#connector/documents.ts';
import { conformanceChecks, conformanceTests } from '#connector/testing/conformance.ts';
import type { ConformanceTarget } from '#connector/testing/target.ts';
import { credentials, memoryTarget } from '../../../connectors/memory/conformance-target.ts';
import { startMemoryErp } from '../../../connectors/memory/memory-erp.ts';
import { brokenConnectors } from './broken-connectors.ts';

// These runs must not count as results of the reference connector.
beforeAll(() => void vi.stubEnv('CONFORMANCE_RESULTS', ''));
afterAll(() => void vi.unstubAllEnvs());

/**
 * Checks that take moments. The slow ones, which disturb every request of a write, would fail for most defects, too.
 */
const quickChecks = ['settings', 'secret settings', 'check', 'ERP away', 'same document twice', 'lookup'];

/** Runs some checks; returns the names of those that fail, each with its message. */
async function failuresOf(target: ConformanceTarget, names: readonly string[], stopMs = 5_000) {
  const failures = new Map<string, string>();
  const tests = conformanceTests(target, { stopMs }).map(({ title, run }) => ({
    name: title.split(':')[0] ?? '',
    run,
  }));
  for (const { name, run } of tests)
    if (names.includes(name)) await run().catch((error: Error) => failures.set(name, error.message));
  return failures;
}

async function referenceTarget(kind: DocumentKind = 'supplier'): Promise<ConformanceTarget> {
  return { ...memoryTarget(await startMemoryErp(credentials)), kinds: [kind] };
}

describe('the conformance kit', () => {
  test('has a broken connector for each of its checks', () => {
    const names = conformanceChecks.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(quickChecks));
    expect([...new Set(brokenConnectors.map(({ fails }) => fails))].sort()).toEqual(names.sort());
  });

  const [hanging, ending] = [true, false].map((hangs) =>
    brokenConnectors.filter((broken) => (broken.hangs ?? false) === hangs),
  );

  test.each(ending ?? [])(
    'detects a connector that $because, by "$fails" and no other quick check',
    async ({ fails, before, kind, breaks }) => {
      const target = breaks(await referenceTarget(kind));
      const failures = await failuresOf(target, [...quickChecks, fails, before ?? '']);
      expect([...failures.keys()]).toEqual([fails]);
      expect(failures.get(fails)).toMatch(/^Expected: .+\nSeen: .+\nLook at: /s);
      expect(failures.get(fails)).not.toContain(credentials.clientSecret);
    },
  );

  test.each(hanging ?? [])('detects a connector that $because, by "$fails"', async ({ fails, kind, breaks }) => {
    const failures = await failuresOf(breaks(await referenceTarget(kind)), [fails], 500);
    expect(failures.get(fails)).toMatch(/ ends within 500 ms\nSeen: {5}it has not ended\n/);
  });
});
