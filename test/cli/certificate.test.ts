/** `certificate`: receivers get a certificate of the local authority, and nobody gets the authority's key. */
import { X509Certificate } from 'node:crypto';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createInstallation, lineOf } from '../faults/program-process.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { freePort } from '../harness/free-port.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createEmptyDatabase } from '../harness/test-database.ts';
import { runHere } from './command-line.ts';

const folder = await scratchFolder();
const [authority, keys, shared] = ['authority', 'keys', 'shared'].map((name) => join(folder, name)) as [
  string,
  string,
  string,
];
const tls = { cert_file: join(shared, 'bridge.pem'), key_file: join(keys, 'bridge-key.pem') };
const bridge = { public_host: 'bridge.example', port: 0, console_port: 0, tls, ca_file: join(shared, 'ca.pem') };

test('the authority’s key stays with the command, and a receiver works with its certificate and makes no authority', async () => {
  for (const path of [keys, shared]) await mkdir(path);
  const config = join(folder, 'bridge.yaml');
  await writeFile(config, JSON.stringify({ bridge }));
  const first = await runHere(['certificate', '--config', config, '--data', authority]);
  expect([first.code, first.stderr]).toEqual([0, '']);
  const certificate = new X509Certificate(await readFile(tls.cert_file));
  expect(certificate.checkHost('bridge.example')).toBe('bridge.example');
  expect(certificate.verify(new X509Certificate(await readFile(bridge.ca_file)).publicKey)).toBe(true);
  expect((await stat(tls.key_file)).mode & 0o777).toBe(0o600);
  expect((await stat(tls.cert_file)).mode & 0o777).toBe(0o644);
  expect(await readdir(keys)).toEqual(['bridge-key.pem']);
  expect(await readFile(tls.cert_file, 'utf8')).not.toContain('PRIVATE KEY');

  // A second call leaves what still fits.
  await runHere(['certificate', '--config', config, '--data', authority]);
  expect(new X509Certificate(await readFile(tls.cert_file)).fingerprint256).toBe(certificate.fingerprint256);

  const db = await createEmptyDatabase();
  closeAtEnd(() => db.drop());
  const installation = await createInstallation({ databaseUrl: db.url, configuration: { bridge } });
  const receiver = installation.start(['bridge', '--role', 'receive']);
  const url = (await lineOf(receiver, /^bridge ready https/)).split(' ')[2] ?? '';
  expect(await chainOf(url)).toEqual([certificate.fingerprint256]);
  expect((await receiver.terminate()).code).toBe(0);
  // Neither an authority nor the service's operator token.
  expect(await readdir(installation.dataDir)).toEqual(['master-key']);
});

test('the doctor trusts the authority that has signed the receiver’s certificate', async () => {
  const config = join(folder, 'of-doctor.yaml');
  const own = { ...bridge, public_host: 'localhost', port: await freePort() };
  await writeFile(config, JSON.stringify({ bridge: own }));
  const made = await runHere(['certificate', '--config', config, '--data', join(folder, 'authority-of-doctor')]);
  expect([made.code, made.stderr]).toEqual([0, '']);
  const db = await createEmptyDatabase();
  closeAtEnd(() => db.drop());
  const installation = await createInstallation({ databaseUrl: db.url, configuration: { bridge: own } });
  const receiver = installation.start(['bridge', '--role', 'receive']);
  await lineOf(receiver, /^bridge ready https/);
  const doctor = installation.start(['bridge', 'doctor']);
  await doctor.end;
  expect(doctor.lines.join('\n')).toContain(`a receiver answers at https://localhost:${own.port}/healthz`);
  await receiver.terminate();
});

test('a process that does not receive needs the certificate’s key for nothing', async () => {
  const db = await createEmptyDatabase();
  closeAtEnd(() => db.drop());
  const lacking = { ...bridge, tls: { ...tls, key_file: join(folder, 'nowhere') } };
  const installation = await createInstallation({ databaseUrl: db.url, configuration: { bridge: lacking } });
  const puller = installation.start(['bridge', '--role', 'pull']);
  await lineOf(puller, /^bridge ready/);
  expect((await puller.terminate()).code).toBe(0);
  const receiver = installation.start(['bridge', '--role', 'receive']);
  expect((await receiver.end).code).toBe(2);
  expect(receiver.errors.join('\n')).toContain('bridge.tls.key_file');
});

test('without the settings that say where to write it refuses, and names them', async () => {
  const config = join(folder, 'empty.yaml');
  await writeFile(config, '{}');
  const refused = await runHere(['certificate', '--config', config, '--data', join(folder, 'unused')]);
  expect([refused.code, refused.stderr]).toEqual([
    2,
    'certificate needs bridge.tls and bridge.ca_file: they say where it writes.\n',
  ]);
});

async function chainOf(url: string): Promise<string[]> {
  const { connect } = await import('node:tls');
  const { port } = new URL(url);
  const socket = connect({
    host: '127.0.0.1',
    port: Number(port),
    servername: 'bridge.example',
    ca: await readFile(bridge.ca_file),
  });
  const { promise, resolve, reject } = Promise.withResolvers<string[]>();
  socket.once('secureConnect', () => resolve([socket.getPeerX509Certificate()?.fingerprint256 ?? '']));
  socket.once('error', reject);
  return promise.finally(() => socket.destroy());
}
