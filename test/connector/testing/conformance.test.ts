import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type Document, documentKinds, documentSchemas } from '#connector/documents.ts';
import { conformance, conformanceChecks } from '#connector/testing/conformance.ts';
import { sampleOf } from '#connector/testing/sample-documents.ts';
import type { ConformanceTarget } from '#connector/testing/target.ts';
import { credentials, memoryTarget } from '../../../connectors/memory/conformance-target.ts';
import { startMemoryErp } from '../../../connectors/memory/memory-erp.ts';

// These runs must not count as results of the reference connector.
beforeEach(() => void vi.stubEnv('CONFORMANCE_RESULTS', ''));
afterAll(() => void vi.unstubAllEnvs());

const erp = await startMemoryErp(credentials);
const target: ConformanceTarget = { ...memoryTarget(erp), kinds: ['award'] };

function run(name: string, changed: Partial<ConformanceTarget> = {}): Promise<void> {
  const found = conformance({ ...target, ...changed }).find(({ title }) => title.startsWith(`${name}: `));
  return found?.run() ?? Promise.reject(new Error(`there is no check "${name}"`));
}

describe('results', () => {
  let folder = '';
  afterEach(async () => {
    vi.unstubAllEnvs();
    await rm(folder, { recursive: true, force: true });
  });

  test('are written after each check: passed, failed, or not applicable with the reason', async () => {
    folder = await mkdtemp(join(tmpdir(), 'conformance-'));
    vi.stubEnv('CONFORMANCE_RESULTS', folder);
    const held = async () => [];
    const tests = conformance({
      ...target,
      held,
      against: 'ERP 1.2/3',
      notApplicable: { settings: 'none are needed' },
    });
    for (const name of ['settings', 'same document twice', 'ERP away'])
      await tests
        .find(({ title }) => title.startsWith(`${name}: `))
        ?.run()
        .catch(() => undefined);
    expect(JSON.parse(await readFile(join(folder, 'memory', 'ERP-1.2-3.json'), 'utf8'))).toEqual({
      connector: 'memory',
      against: 'ERP 1.2/3',
      verified: 'real server',
      kinds: ['award'],
      reads: ['supplier', 'requisition'],
      checks: [
        { name: 'settings', result: 'not applicable', reason: 'none are needed' },
        { name: 'same document twice', result: 'failed' },
        { name: 'ERP away', result: 'passed' },
      ],
    });
    expect(tests[0]?.title).toContain('(not applicable: none are needed)');
  });

  test('of a check that is run again are its last one', async () => {
    folder = await mkdtemp(join(tmpdir(), 'conformance-'));
    vi.stubEnv('CONFORMANCE_RESULTS', folder);
    let isBroken = true;
    const erpTarget = memoryTarget(erp);
    const held: ConformanceTarget['held'] = async (document) => (isBroken ? [] : erpTarget.held(document));
    const sameTwice = conformance({ ...target, held, against: 'retried' }).find(({ title }) =>
      title.startsWith('same document twice: '),
    );
    await expect(sameTwice?.run()).rejects.toThrow('the ERP holds one object');
    isBroken = false;
    await sameTwice?.run();
    const { checks } = JSON.parse(await readFile(join(folder, 'memory', 'retried.json'), 'utf8'));
    expect(checks).toEqual([{ name: 'same document twice', result: 'passed' }]);
  });

  test('of checks that do not apply have the reason', async () => {
    folder = await mkdtemp(join(tmpdir(), 'conformance-'));
    vi.stubEnv('CONFORMANCE_RESULTS', folder);
    const { proxy: _proxy, poison: _poison, expireLogin: _expire, ...bare } = target;
    const notApplicable = { 'poisoned record': 'the ERP refuses no record' };
    const settings = () => target.settings(erp.address);
    const skipped: string[] = [];
    for (const { run } of conformance({ ...bare, settings, against: 'bare', notApplicable }))
      await run({ skip: (reason) => skipped.push(reason) });
    const { checks } = JSON.parse(await readFile(join(folder, 'memory', 'bare.json'), 'utf8'));
    expect(checks.filter(({ reason }: { reason?: string }) => reason)).toEqual(
      Object.entries({
        'ERP away': 'the ERP is not reached over a network',
        'keys alike': 'only suppliers have keys that people choose',
        'poisoned record': 'the ERP refuses no record',
        crash: 'the ERP is not reached over a network',
        'lost answer': 'the ERP is not reached over a network',
        'server errors': 'the ERP is not reached over HTTP',
        'refused in the middle': 'the ERP is not reached over HTTP',
        'rate limit': 'the ERP is not reached over HTTP',
        'refused login': 'the ERP is not reached over HTTP',
        'expired login': 'the ERP is not reached over a network',
        'requests at once': 'the ERP is not reached over a network',
        'acknowledge again': 'the ERP is not reached over a network',
        'read back cut off': 'the ERP is not reached over a network',
      }).map(([name, reason]) => ({ name, result: 'not applicable', reason })),
    );
    expect(checks).toHaveLength(conformanceChecks.length);
    // The runner shows these checks as skipped, not as passed.
    expect(skipped).toEqual(checks.flatMap(({ reason }: { reason?: string }) => reason ?? []));
  });
});

describe('a target that would prove nothing is refused', () => {
  test('when notApplicable names no check', () => {
    expect(() => conformance({ ...target, notApplicable: { crashes: 'never' } })).toThrow(
      'notApplicable names "crashes", which is not a check: settings, ',
    );
  });

  test('when notApplicable has no reason', () => {
    expect(() => conformance({ ...target, notApplicable: { crash: ' ' } })).toThrow(
      'notApplicable names "crash" without the reason',
    );
  });

  test.each([
    ['poison', 'poisoned record', { poison: undefined }],
    ['poison', 'poisoned record', { poison: (document: Document) => document }],
    ['expireLogin', 'expired login', { expireLogin: undefined }],
  ])('when it has no %s, and no reason why "%s" does not apply', async (member, check, without) => {
    await expect(run(check, without as Partial<ConformanceTarget>)).rejects.toThrow(
      `Expected: target.${member}; or, where`,
    );
  });

  test('when its settings bypass the proxy', async () => {
    const settings = () => target.settings(erp.address);
    await expect(run('crash', { settings })).rejects.toThrow('Seen:     no request arrived there');
  });

  test.each([
    ['no text', { currency: 'EUR' }, 'at least one text with other letters'],
    ['no amount', { event: {} }, 'at least one price or amount'],
  ])('when held() shows %s', async (what, shown, message) => {
    const held: ConformanceTarget['held'] = async (document) => {
      const objects = await target.held(document);
      const name = 'event' in document ? document.event.name : '';
      return objects.map(({ reference }) => ({
        reference,
        document: what === 'no text' ? {} : { ...shown, event: { name } },
      }));
    };
    await expect(run('fidelity', { held })).rejects.toThrow(message);
  });
});

test('the failure of a connector that converts amounts to numbers shows which digits are lost', async () => {
  const { connector } = target;
  const open: typeof connector.open = async (...given) => {
    const session = await connector.open(...given);
    return {
      ...session,
      write: (operations, signal) =>
        session.write(
          operations.map((operation) => {
            const { document } = operation;
            if (document.kind !== 'award') return operation;
            const lines = document.lines.map((line) => ({ ...line, cost: Number(line.cost).toFixed(2) }));
            return { ...operation, document: { ...document, lines } };
          }),
          signal,
        ),
    };
  };
  await expect(run('fidelity', { connector: { ...connector, open } })).rejects.toThrow(
    '.cost: expected "3703703.6715", the ERP holds "3703703.67"',
  );
});

test.each(documentKinds)('the sample documents of kind %s are valid, and each has its own key', (kind) => {
  const keys = new Set<string>();
  for (let n = 0; n < 12; n += 1) {
    const { key, versions, withdrawn } = sampleOf(kind, n);
    keys.add(key);
    for (const document of [...versions, ...(withdrawn ? [withdrawn] : [])]) {
      expect(documentSchemas[kind].parse(document)).toEqual(document);
      expect(document.key).toBe(key);
    }
    expect(new Set(versions.map((version) => JSON.stringify(version))).size).toBe(3);
  }
  expect(keys.size).toBe(12);
});
