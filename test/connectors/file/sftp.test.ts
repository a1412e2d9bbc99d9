/** The file connector with SFTP servers: trust, logins, lost connections, and servers without extensions. */
import { execFile } from 'node:child_process';
import { chmod, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Operation, Session } from '#connector/connector.ts';
import { Secret } from '#connector/settings.ts';
import { sampleOf } from '#connector/testing/sample-documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import fileConnector from '../../../connectors/file/index.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';
import { type SshServer, startSshd, whyNoSshd } from '../../harness/sshd.ts';
import { operation } from './operations.ts';
import { type PlainSftpServer, startPlainSftpServer } from './sftp-server.ts';

const missing = await whyNoSshd();
const never = new AbortController().signal;

const sessions: Session[] = [];
afterEach(async () => {
  for (const session of sessions.splice(0)) await session.close();
});

interface Login {
  [setting: string]: unknown;
}

async function open(server: SshServer, more: Record<string, unknown> = {}, login: Login = {}): Promise<Session> {
  const { port, user, keyFile, passphrase, fingerprint, folder } = server;
  const sftp = { host: '127.0.0.1', port, user, private_key_file: keyFile, passphrase, fingerprint, ...login };
  const settings = fileConnector.settings.parse({ directory: folder, ...more, sftp });
  const session = await fileConnector.open(settings, testContext({ dataDir: await scratchFolder() }).context);
  sessions.push(session);
  return session;
}

function awards(count: number): Operation[] {
  return Array.from({ length: count }, (_, n) => {
    const sample = sampleOf('award', n);
    return operation('create', sample, sample.versions[0]);
  });
}

const statuses = async (session: Session, operations: readonly Operation[]) =>
  (await session.write(operations, never)).map(({ status }) => status);

describe.skipIf(missing !== undefined)(`an SFTP server${missing === undefined ? '' : ` (skipped: ${missing})`}`, () => {
  let server: SshServer;
  beforeAll(async () => {
    server = await startSshd();
  });

  test('that shows another key than the settings name gets no login, and the flow pauses with the key in the message', async () => {
    const other = 'SHA256:uNiVztksCsDhcc0u9e8BrrJXVGDIRDrKzVxZqCZzg7E';
    const before = server.log.length;
    const session = await open(server, {}, { fingerprint: other });
    expect(await session.write(awards(1), never)).toMatchObject([
      { status: 'retry', error: { type: 'config', message: expect.stringContaining(server.fingerprint) as string } },
    ]);
    expect(await session.check()).toMatchObject([{ name: 'server', ok: false }]);
    expect(server.log.slice(before).join()).not.toMatch(/Accepted|Failed|publickey/);
  });

  test('that refuses the login pauses the flow; a wrong passphrase stops the start', async () => {
    const session = await open(server, {}, { private_key_file: undefined, passphrase: undefined, password: 'hunter2' });
    const [outcome] = await session.write(awards(1), never);
    expect(outcome).toMatchObject({ status: 'retry', error: { type: 'auth' } });
    expect(JSON.stringify(outcome)).not.toContain('hunter2');
    await expect(open(server, {}, { passphrase: 'wrong' })).rejects.toMatchObject({ type: 'config' });
  });

  test('whose folder is missing, or may not be written, pauses the flow with a message that names it', async () => {
    const nowhere = await open(server, { directory: join(server.folder, 'nowhere') });
    expect(await nowhere.write(awards(1), never)).toMatchObject([{ status: 'retry', error: { type: 'config' } }]);
    expect((await nowhere.check()).find(({ ok }) => !ok)?.message).toContain('nowhere');
    const closed = join(server.folder, 'closed');
    await mkdir(closed);
    await chmod(closed, 0o555);
    const session = await open(server, { directory: closed });
    expect(await session.write(awards(1), never)).toMatchObject([{ status: 'retry', error: { type: 'config' } }]);
    expect((await session.check()).find(({ ok }) => !ok)?.message).toContain('grant the user the right');
  });

  test('that was stopped and started is used again by the same session', async () => {
    const session = await open(server);
    expect(await statuses(session, awards(2))).toEqual(['created', 'created']);
    await server.cut();
    const operations = awards(2);
    const outcomes = await session.write(operations, never);
    // The session may have noticed the end of the connection already.
    for (const { status } of outcomes) expect(['created', 'retry', 'unknown']).toContain(status);
    await server.stop();
    expect(await statuses(session, awards(1))).toEqual(['retry']);
    await server.start();
    expect(await statuses(session, awards(2))).toEqual(['created', 'created']);
  });

  test('gets a large file completely, in chunks that may overtake each other', async () => {
    const session = await open(server);
    const bytes = Buffer.alloc(5_000_001, 'a line that is long enough to notice when a piece of it goes astray\n');
    const sample = sampleOf('file');
    const file = { name: 'large.bin', read: async () => bytes };
    expect(await session.write([{ ...operation('create', sample, sample.versions[0]), file }], never)).toMatchObject([
      { status: 'created' },
    ]);
    const [name = ''] = await readdir(join(server.folder, 'files'));
    expect(bytes.equals(await readFile(join(server.folder, 'files', name)))).toBe(true);
    expect(await session.lookup([sample.versions[0]], never)).toMatchObject([{ key: sample.key }]);
  });

  test('whose reader removes empty folders still gets all files of a batch', async () => {
    const folder = join(server.folder, 'emptied');
    await mkdir(folder);
    await chmod(folder, 0o777);
    const session = await open(server, { directory: folder, layout: 'batch' });
    const write = (n: number) => {
      const sample = sampleOf('file', n);
      return statuses(session, [operation('create', sample, sample.versions[0])]);
    };
    expect(await write(0)).toEqual(['created']);
    await rm(join(folder, 'files'), { recursive: true });
    expect(await write(1)).toEqual(['created']);
    expect(await readdir(join(folder, 'files'))).toHaveLength(1);
    // Also when the folder of waiting batches was removed.
    await rm(join(folder, '.sourcing-bridge', 'ready'), { recursive: true });
    expect(await write(2)).toEqual(['created']);
    expect(await readdir(join(folder, 'files'))).toHaveLength(2);
  });

  test('has only the written files and the receipts after a write', async () => {
    const folder = join(server.folder, 'clean');
    await mkdir(folder);
    await chmod(folder, 0o777);
    const session = await open(server, { directory: folder, layout: 'batch' });
    await session.check();
    await session.write(awards(2), never);
    expect(
      (await readdir(folder)).map((name) => name.replace(/\d{8}T\d{6}Z_\d{13}-[0-9a-f]{12}/, '<sequence>')).sort(),
    ).toEqual(['.sourcing-bridge', 'award_<sequence>.csv', 'award_<sequence>.manifest.json']);
    expect(await readdir(join(folder, '.sourcing-bridge', 'ready'))).toEqual([]);
    expect(await readdir(join(folder, '.sourcing-bridge', 'known'))).toHaveLength(2);
  });

  test('gives no file that is a link, a FIFO or a folder to a read, and says so', async () => {
    const folder = join(server.folder, 'dropped');
    await mkdir(folder);
    await chmod(folder, 0o777);
    // The server's user reads them, whatever files of the one who runs the tests are allowed to be by themselves.
    const place = async (path: string, text: string) => {
      await writeFile(path, text);
      await chmod(path, 0o644);
    };
    await place(join(server.folder, 'outside'), 'no,name\n9,Secret\n');
    await symlink(join(server.folder, 'outside'), join(folder, 'v1.csv'));
    await promisify(execFile)('mkfifo', [join(folder, 'v2.csv')]);
    await place(join(folder, 'v3.csv'), 'no,name\n1,A\n');
    const read = { supplier: { files: 'v*.csv', quiet_seconds: 0, record: { external_id: 'no', name: 'name' } } };
    const session = await open(server, { directory: folder, read });
    const ids: string[] = [];
    const reading = (async () => {
      for await (const { records } of session.read?.('supplier', undefined, never) ?? [])
        ids.push(...records.map(({ external_id }) => external_id));
    })();
    await expect(reading).rejects.toThrow(/v1\.csv: it is a link.*v2\.csv: it is a link.*all others were read/);
    expect(ids).toEqual(['1']);
  });
});

describe.skipIf(missing !== undefined)('an SFTP server without extensions', () => {
  test.each(['document', 'batch'])('can still be written, and check() reports what it lacks (%s)', async (layout) => {
    const server = await startSshd({ denied: ['posix-rename', 'fsync', 'hardlink'] });
    const session = await open(server, { layout });
    const checked = await session.check();
    expect(checked.find(({ name }) => name === 'rename')?.message).toContain('cannot replace a file in one step');
    const sample = sampleOf('award');
    const [v1, v2] = sample.versions;
    expect(await statuses(session, [operation('create', sample, v1)])).toEqual(['created']);
    const amend = operation('amend', sample, v2);
    expect(await statuses(session, [amend])).toEqual(['updated']);
    expect(await session.lookup([v2], never)).toMatchObject([{ contentHash: amend.contentHash }]);
    const written = (await readdir(server.folder)).filter((name) => !name.startsWith('.'));
    expect(written).toHaveLength(layout === 'batch' ? 4 : 2);
    expect((await stat(join(server.folder, written[0] ?? ''))).size).toBeGreaterThan(0);
  });
});

test('the password, the key and its passphrase are secrets', () => {
  const sftp = {
    host: 'h',
    user: 'u',
    password: 'p',
    private_key_file: 'f',
    passphrase: 'q',
    fingerprint: `SHA256:${'a'.repeat(43)}`,
  };
  const parsed = fileConnector.settings.parse({ directory: 'd', sftp }) as { sftp: Record<string, unknown> };
  expect([parsed.sftp['password'], parsed.sftp['passphrase']]).toEqual([expect.any(Secret), expect.any(Secret)]);
});

describe('a server that accepts a password', () => {
  const password = 'correct horse 7/Q ü';
  const bothCreated = ['created', 'created'];
  const openPlain = async (server: PlainSftpServer, login: Login, more: Record<string, unknown> = {}) => {
    const sftp = { host: '127.0.0.1', port: server.port, user: 'bridge', fingerprint: server.fingerprint, ...login };
    const settings = fileConnector.settings.parse({ directory: '.', ...more, sftp });
    const session = await fileConnector.open(settings, testContext({ dataDir: await scratchFolder() }).context);
    sessions.push(session);
    return session;
  };
  const start = (options: Partial<Parameters<typeof startPlainSftpServer>[0]>) =>
    startPlainSftpServer({ accepts: ['password'], password, rename: 'refuses', ...options });

  test('gets it once', async () => {
    const server = await start({});
    expect(await statuses(await openPlain(server, { password }), awards(2))).toEqual(bothCreated);
    expect(server.attempts).toEqual([`password ${password}`]);
  });

  test('gets a wrong one only once, because many servers lock a user after some failures: the flow pauses', async () => {
    const server = await start({ accepts: ['password', 'keyboard-interactive'] });
    const session = await openPlain(server, { password: 'hunter2' });
    const [outcome] = await session.write(awards(1), never);
    expect(outcome).toMatchObject({ status: 'retry', error: { type: 'auth' } });
    expect(JSON.stringify(outcome)).not.toContain('hunter2');
    expect(server.attempts).toEqual(['password hunter2']);
  });

  test('only by keyboard-interactive gets it when it asks; a wrong one pauses the flow', async () => {
    const server = await start({ accepts: ['keyboard-interactive'] });
    expect(await statuses(await openPlain(server, { password }), awards(2))).toEqual(bothCreated);
    expect(server.attempts.slice(1)).toEqual([`asked ${password}`]);
    const [outcome] = await (await openPlain(server, { password: 'hunter2' })).write(awards(1), never);
    expect(outcome).toMatchObject({ status: 'retry', error: { type: 'auth' } });
    expect(JSON.stringify(outcome)).not.toContain('hunter2');
    expect(server.attempts.filter((attempt) => attempt === 'asked hunter2')).toHaveLength(1);
  });

  test.each([
    [
      'two questions',
      [
        { prompt: 'Password:', echo: false },
        { prompt: 'Code:', echo: false },
      ],
    ],
    ['a question whose answer is shown', [{ prompt: 'Your name?', echo: true }]],
  ])('and asks %s does not get the password', async (_what, prompts) => {
    const server = await start({ accepts: ['keyboard-interactive'], prompts });
    const session = await openPlain(server, { password });
    expect(await session.write(awards(1), never)).toMatchObject([{ status: 'retry', error: { type: 'auth' } }]);
    expect(server.attempts.slice(1)).toEqual(['asked']);
  });

  describe.each(['refuses', 'replaces'] as const)('and whose rename %s an existing file', (rename) => {
    test.each(['document', 'batch'])('can be written, and files are replaced (%s)', async (layout) => {
      const server = await start({ rename });
      const session = await openPlain(server, { password }, { layout });
      const checked = await session.check();
      expect(checked.map(({ ok }) => ok)).toEqual([true, true, true]);
      expect(checked.find(({ name }) => name === 'rename')?.message).toContain('cannot replace a file in one step');
      const sample = sampleOf('award');
      const [v1, v2] = sample.versions;
      expect(await statuses(session, [operation('create', sample, v1)])).toEqual(['created']);
      const amend = operation('amend', sample, v2);
      expect(await statuses(session, [amend])).toEqual(['updated']);
      const next = await openPlain(server, { password }, { layout });
      expect(await next.lookup([v2], never)).toMatchObject([{ contentHash: amend.contentHash }]);
      const written = (await readdir(server.folder)).filter((name) => !name.startsWith('.'));
      expect(written).toHaveLength(layout === 'batch' ? 4 : 2);
    });
  });
});
