import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadAdminToken, loadMasterKey, loadOrCreateSecret } from '#platform/data-dir-secret.ts';
import { AppError } from '#platform/errors.ts';
import { failureOf } from '../harness/failure.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'secret-'));
});
afterEach(() => rm(directory, { recursive: true }));

const failure = (run: Promise<unknown>) => failureOf(AppError, run);

describe('a secret in the data directory', () => {
  it('is made once with mode 0600 and stays the same', async () => {
    const file = join(directory, 'deep', 'secret');
    const first = await loadOrCreateSecret({ file, bytes: 32 });
    expect(first.length).toBe(32);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await loadOrCreateSecret({ file, bytes: 32 })).toEqual(first);
    expect(await readdir(join(directory, 'deep'))).toEqual(['secret']);
    expect(await loadOrCreateSecret({ file: join(directory, 'other'), bytes: 32 })).not.toEqual(first);
  });

  it('is the same for all calls at the same time', async () => {
    const file = join(directory, 'secret');
    const all = await Promise.all(Array.from({ length: 50 }, () => loadOrCreateSecret({ file, bytes: 32 })));
    expect(new Set(all.map((secret) => secret.toString('hex'))).size).toBe(1);
    expect(await readdir(directory)).toEqual(['secret']);
  });

  it('is the same for processes that start at the same time', async () => {
    const script = `
      import { loadOrCreateSecret } from ${JSON.stringify(new URL('../../src/platform/data-dir-secret.ts', import.meta.url).href)};
      process.stdin.once('data', async () => {
        const secret = await loadOrCreateSecret({ file: process.argv[1], bytes: 32 });
        process.stdout.write(secret.toString('hex'));
        process.exit();
      });
      process.stderr.write('ready');`;
    const children: ChildProcessWithoutNullStreams[] = [];
    for (let index = 0; index < 3; index++)
      children.push(spawn(process.execPath, ['--input-type=module', '-e', script, join(directory, 'secret')]));
    await Promise.all(children.map((child) => once(child.stderr, 'data')));
    for (const child of children) child.stdin.write('go');
    const secrets = await Promise.all(children.map((child) => text(child.stdout)));
    expect(secrets[0]).toMatch(/^[0-9a-f]{64}$/);
    expect(new Set(secrets).size).toBe(1);
  });

  it.each(['', 'not base64!', 'AAAA', `${'A'.repeat(43)}\n${'A'.repeat(43)}`])(
    'is never replaced when the file holds %j: the error names the file',
    async (content) => {
      const file = join(directory, 'secret');
      await writeFile(file, content);
      const error = await failure(loadOrCreateSecret({ file, bytes: 32 }));
      expect(error.publicMessage).toContain(file);
      expect(await readFile(file, 'utf8')).toBe(content);
    },
  );

  it('says which file cannot be read', async () => {
    expect((await failure(loadOrCreateSecret({ file: directory, bytes: 32 }))).message).toContain(directory);
  });
});

describe('master key and admin token', () => {
  const bytes = Buffer.from(Array.from({ length: 32 }, (_, index) => 255 - index));

  it.each(['base64', 'base64url'] as const)('takes the key of SOURCING_MASTER_KEY in %s', async (encoding) => {
    const key = await loadMasterKey({ fromEnvironment: ` ${bytes.toString(encoding)}\n`, directory });
    expect(key).toEqual(bytes);
    expect(await readdir(directory)).toEqual([]);
  });

  it.each([bytes.subarray(1).toString('base64'), bytes.toString('hex'), 'correct horse battery staple!!!!'])(
    'refuses %j as SOURCING_MASTER_KEY by name, without showing it',
    async (value) => {
      const error = await failure(loadMasterKey({ fromEnvironment: value, directory }));
      expect(error.publicMessage).toContain('SOURCING_MASTER_KEY must be 32 bytes');
      expect(`${error.message} ${error.publicMessage} ${error.stack}`).not.toContain(value.slice(0, 12));
    },
  );

  it('makes and keeps a key and a token when the environment has none', async () => {
    const key = await loadMasterKey({ fromEnvironment: undefined, directory });
    expect(await loadMasterKey({ fromEnvironment: '', directory })).toEqual(key);
    const token = await loadAdminToken({ fromEnvironment: undefined, directory });
    expect(token).toMatch(/^[\w-]{43}$/);
    expect(await readFile(join(directory, 'admin-token'), 'utf8')).toBe(`${token}\n`);
    expect(await loadAdminToken({ fromEnvironment: 'from-outside', directory })).toBe('from-outside');
    expect((await readdir(directory)).sort()).toEqual(['admin-token', 'master-key']);
  });

  it('makes a key file whose content works as SOURCING_MASTER_KEY on another machine', async () => {
    const key = await loadMasterKey({ fromEnvironment: undefined, directory });
    const copied = await readFile(join(directory, 'master-key'), 'utf8');
    expect(await loadMasterKey({ fromEnvironment: copied, directory: join(directory, 'elsewhere') })).toEqual(key);
  });
});
