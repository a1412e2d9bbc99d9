/** `connector verify`: the acceptance on a test system, here with the reference connector and its ERP. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { credentials } from '../../connectors/memory/conformance-target.ts';
import { startMemoryErp } from '../../connectors/memory/memory-erp.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { runHere } from './command-line.ts';

const erp = await startMemoryErp(credentials);
const folder = await scratchFolder();

/** Writes a configuration with a flow to the ERP; returns its file. */
async function configured(name: string, secret: string): Promise<string> {
  const file = join(folder, name);
  const flow = {
    name: 'erp',
    source: 'main',
    connector: 'memory',
    documents: ['supplier', 'quotation', 'award'],
    settings: { base_url: erp.address, client_id: credentials.clientId, client_secret: secret },
  };
  const sources = [{ name: 'main', base_url: 'https://sourcing.example.com', api_key: 'key-of-the-source' }];
  await writeFile(file, JSON.stringify({ bridge: { sources, flows: [flow] } }));
  return file;
}

const config = await configured('bridge.yaml', credentials.clientSecret);

async function verifyWith(file: string, ...args: string[]) {
  return runHere(['connector', 'verify', 'memory', '--config', file, '--data', folder, ...args]);
}
const verify = async (...args: string[]) => verifyWith(config, ...args);

interface Report {
  ok: boolean;
  wrote: boolean;
  lines: { of: string; name: string; ok: boolean; message: string }[];
}

describe('connector verify', () => {
  test('writes nothing without --test-system, and says so', async () => {
    const { code, stdout } = await verify();
    expect(code).toBe(0);
    expect(stdout).toContain('Nothing was written.');
    // The ERP gives its first number to what is made now.
    expect((await verify('--test-system', '--kinds', 'quotation')).stdout).toContain('QUO-000001');
  });

  test('creates, finds, repeats, changes and removes a document of each kind, and leaves nothing', async () => {
    const { code, stdout } = await verify('--test-system', '--json');
    const { ok, wrote, lines } = JSON.parse(stdout) as Report;
    expect([code, ok, wrote]).toEqual([0, true, true]);
    for (const kind of ['quotation', 'award']) {
      const steps = lines.filter(({ of }) => of === kind);
      expect(steps.map(({ name }) => name)).toEqual([
        'nothing is there before',
        'the plan',
        'create',
        'found by another session',
        'written again',
        'stopped before it is sent',
        'changed',
        'removed',
      ]);
      expect(steps.at(-1)?.message).toContain('is cancelled, and lookup finds nothing');
    }
    // A supplier can only be archived: it is tried where it is named.
    expect(lines.some(({ of }) => of === 'supplier')).toBe(false);
    const supplier = JSON.parse((await verify('--test-system', '--json', '--kinds', 'supplier')).stdout) as Report;
    expect(supplier.lines.at(-1)).toMatchObject({
      of: 'supplier',
      ok: true,
      message: expect.stringContaining('is archived'),
    });
  });

  test('reports what the ERP refuses, in its words, and nothing is left behind', async () => {
    const sample = join(folder, 'sample.yaml');
    // The ERP refuses titles of more than 200 characters.
    await writeFile(sample, JSON.stringify({ supplier: { external_id: 'V', name: 'x'.repeat(201) } }));
    const { code, stdout } = await verify('--test-system', '--json', '--kinds', 'supplier', '--sample', sample);
    const { lines } = JSON.parse(stdout) as Report;
    expect(code).toBe(1);
    expect(lines.filter(({ ok }) => !ok)).toMatchObject([
      { name: 'create', message: expect.stringContaining('rejected') },
    ]);
    expect(lines.at(-1)).toMatchObject({ name: 'removed', message: 'nothing was made' });
  });

  test('shows no secret, also where the ERP refuses the login', async () => {
    const secret = 'wrong-Secret-4711';
    const { code, stdout, stderr } = await verifyWith(await configured('wrong.yaml', secret), '--test-system');
    expect(code).toBe(1);
    expect(stdout).toContain('FAIL');
    expect(stdout + stderr).not.toContain(secret);
  });

  test.each([
    [['--kinds', 'file'], 'delivers no file documents'],
    [['--flow', 'other'], 'no flow "other"'],
    [['--sample', '/nowhere.yaml'], '/nowhere.yaml cannot be read'],
  ])('refuses %o, and exits with 2', async (args, words) => {
    const { code, stderr } = await verify(...args);
    expect(code).toBe(2);
    expect(stderr).toContain(words);
  });
});
