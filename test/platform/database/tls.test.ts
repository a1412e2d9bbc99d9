/** A real server with a certificate of an authority that this machine does not trust, and one without TLS. */
import { chown, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { expect, test } from 'vitest';
import { systemClock } from '#platform/clock.ts';
import { startEmbeddedPostgres } from '#platform/database/embedded-postgres.ts';
import { openDatabase } from '#platform/database/open-database.ts';
import { ensureLocalCertificates } from '#platform/local-ca.ts';
import { silentLogger } from '#platform/log.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';

/** Starts a server for TLS, whose certificate is for localhost only; returns its URL and the file of its authority. */
async function serverWithTls() {
  const folder = await scratchFolder();
  const dataDir = join(folder, '.test');
  const server = await startEmbeddedPostgres({ dataDir, log: silentLogger, scratch: true });
  closeAtEnd(() => server.stop());
  const given = { directory: join(folder, 'tls'), hostnames: ['localhost'], clock: systemClock, log: silentLogger };
  const made = await ensureLocalCertificates(given);
  const { uid, gid } = await stat(join(dataDir, 'postgres'));
  for (const [name, text] of [
    ['server.crt', made.certPem],
    ['server.key', made.keyPem],
  ] as const) {
    const file = join(dataDir, 'postgres', name);
    await writeFile(file, text, { mode: 0o600 });
    await chown(file, uid, gid);
  }
  const admin = new Client({ connectionString: server.url });
  await admin.connect();
  await admin.query('alter system set ssl = on');
  await admin.query('select pg_reload_conf()');
  await admin.end();
  const caFile = join(folder, 'ca.pem');
  await writeFile(caFile, made.caPem);
  return { url: new URL(server.url), caFile };
}

const { url, caFile } = await serverWithTls();

function open(host: string, params: Record<string, string>) {
  const target = new URL(url);
  target.hostname = host;
  for (const [name, value] of Object.entries(params)) target.searchParams.set(name, value);
  return openDatabase({ url: target.href, dataDir: '/nowhere', log: silentLogger, applicationName: 'tls', poolMax: 2 });
}

test('a certificate of the named authority for the named host is accepted', async () => {
  const opened = await open('localhost', { sslmode: 'verify-full', sslrootcert: caFile });
  const rows = await opened.database.query('select ssl from pg_stat_ssl where pid = pg_backend_pid()');
  await opened.close();
  expect(rows).toEqual([{ ssl: true }]);
});

test.each([
  ['an authority that is not trusted', 'localhost', { sslmode: 'verify-full' }, /sslrootcert=/],
  ['sslmode=require, which also verifies', 'localhost', { sslmode: 'require' }, /sslrootcert=/],
  [
    'a name that the certificate does not have',
    '127.0.0.1',
    { sslmode: 'verify-full', sslrootcert: caFile },
    /host name in the URL/,
  ],
])('%s is a mistake of the settings, and says what to change', async (_what, host, params, says) => {
  await expect(open(host, params)).rejects.toMatchObject({
    code: 'invalid',
    message: expect.stringMatching(new RegExp(`${says.source}.*DATABASE_URL`)),
  });
});

test('a server without TLS is a mistake of the settings when the URL asks for it', async () => {
  const { port, password } = url;
  expect(password).not.toBe('');
  const admin = new Client({ connectionString: url.href });
  await admin.connect();
  await admin.query('alter system set ssl = off');
  await admin.query('select pg_reload_conf()');
  await admin.end();
  const failure = () =>
    open('localhost', { sslmode: 'verify-full', sslrootcert: caFile }).then(
      (opened) => opened.close().then(() => 'open'),
      (error: Error) => error.message,
    );
  await expect.poll(failure, { timeout: 10_000 }).toMatch(new RegExp(`localhost:${port}.*sslmode=disable`));
});
