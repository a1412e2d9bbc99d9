import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { appendFile, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, createServer } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { ensureLocalCertificates, type LocalCertificates } from '#platform/local-ca.ts';
import { silentLogger } from '#platform/log.ts';

const dayMs = 86_400_000;
const hostnames = ['localhost', '127.0.0.1', '::1'];

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'local-ca-'));
});
afterEach(() => rm(directory, { recursive: true }));

function ensure(options: { inDays?: number; hostnames?: string[]; directory?: string } = {}) {
  const clock: Clock = { ...systemClock, nowMs: () => Date.now() + (options.inDays ?? 0) * dayMs };
  return ensureLocalCertificates({ directory, hostnames, log: silentLogger, ...options, clock });
}

/** Makes a TLS handshake with verification; returns the error's code, or `ok`. */
async function handshake(server: LocalCertificates, trusted: string, servername: string): Promise<string> {
  const listener = createServer({ cert: server.certPem, key: server.keyPem });
  listener.on('tlsClientError', () => {});
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  const socket = connect({ port, host: '127.0.0.1', ca: trusted, rejectUnauthorized: true, servername });
  try {
    await once(socket, 'secureConnect');
    return socket.authorized ? 'ok' : 'unauthorized';
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  } finally {
    socket.destroy();
    listener.close();
    await once(listener, 'close');
  }
}

describe('local certificates', () => {
  it('are accepted by a client that trusts the authority, for their host names only', async () => {
    const made = await ensure();
    expect(await handshake(made, made.caPem, 'localhost')).toBe('ok');
    // Without a server name the address itself is checked.
    expect(await handshake(made, made.caPem, '')).toBe('ok');
    expect(await handshake(made, made.caPem, 'example.org')).toBe('ERR_TLS_CERT_ALTNAME_INVALID');
  });

  it('are refused by a client that trusts another local authority', async () => {
    const made = await ensure();
    const other = await ensure({ directory: join(directory, 'other') });
    expect(await handshake(made, other.caPem, 'localhost')).toMatch(/^UNABLE_TO_/);
  });

  it('are an authority for ten years and a server certificate that it issued', async () => {
    const made = await ensure({ hostnames: ['localhost', '[::1]', '127.0.0.1', '*.Test.example'] });
    const ca = new X509Certificate(made.caPem);
    const server = new X509Certificate(made.certPem);
    expect(ca.ca).toBe(true);
    expect(Math.round((Date.parse(ca.validTo) - Date.now()) / dayMs)).toBe(3650);
    expect(server.ca).toBe(false);
    expect(server.checkIssued(ca) && server.verify(ca.publicKey)).toBe(true);
    expect(ca.issuerCertificate).toBeUndefined();
    for (const name of ['localhost', 'a.test.example']) expect(server.checkHost(name)).toBeDefined();
    for (const address of ['127.0.0.1', '::1']) expect(server.checkIP(address)).toBe(address);
    expect(server.checkHost('test.example')).toBeUndefined();
    // id-kp-serverAuth
    expect(server.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1']);
  });

  it('stay the same at the next start, with the keys readable by their owner only', async () => {
    const made = await ensure();
    expect(await ensure({ hostnames: ['::1', 'LOCALHOST', '127.0.0.1', 'localhost'] })).toEqual(made);
    expect((await readdir(directory)).sort()).toEqual(['ca-1.pem', 'ca.pem', 'server.pem']);
    for (const file of ['ca-1.pem', 'server.pem']) expect((await stat(join(directory, file))).mode & 0o777).toBe(0o600);
    expect(await readFile(made.caFile, 'utf8')).toBe(made.caPem);
    expect(made.caPem).not.toContain('PRIVATE');
  });

  it('are the same for all programs that start at the same time', async () => {
    const all = await Promise.all(Array.from({ length: 10 }, () => ensure()));
    expect(new Set(all.map((made) => made.caPem)).size).toBe(1);
    expect(new Set(all.map((made) => made.certPem)).size).toBe(1);
    expect(await readFile(join(directory, 'server.pem'), 'utf8')).toBe(`${all[0]?.keyPem}${all[0]?.certPem}`);
  });

  it.each([
    ['29 days before its end', 336, hostnames],
    ['after its end', 400, hostnames],
  ])('get a new server certificate, from the same authority, %s', async (_, inDays, hostnames) => {
    const before = await ensure();
    const after = await ensure({ inDays, hostnames });
    expect(after.caPem).toBe(before.caPem);
    expect(after.certPem).not.toBe(before.certPem);
    expect(await ensure({ inDays, hostnames })).toEqual(after);
  });

  it('get a new authority for other host names, and the former one again for the former names', async () => {
    const before = await ensure();
    const after = await ensure({ hostnames: ['localhost', 'bridge.test'] });
    expect(after.caPem).not.toBe(before.caPem);
    expect(await handshake(after, after.caPem, 'bridge.test')).toBe('ok');
    expect(await readFile(after.caFile, 'utf8')).toBe(after.caPem);
    expect((await ensure()).caPem).toBe(before.caPem);
  });

  it('keep the server certificate 31 days before its end', async () => {
    const before = await ensure();
    expect(await ensure({ inDays: 334 })).toEqual(before);
  });

  it('get a new authority before the old one ends', async () => {
    const before = await ensure();
    const after = await ensure({ inDays: 3_640 });
    expect(after.caPem).not.toBe(before.caPem);
    expect(new X509Certificate(after.certPem).checkIssued(new X509Certificate(after.caPem))).toBe(true);
  });

  it.each([
    ['empty', (file: string) => truncate(file, 0)],
    ['cut', (file: string) => truncate(file, 500)],
    ['garbage', (file: string) => writeFile(file, 'garbage')],
    ['lengthened', (file: string) => appendFile(file, 'garbage')],
    [
      'of mixed origin',
      async (file: string) => {
        const certificateAt = '-----BEGIN CERTIFICATE';
        const [oldKey = ''] = (await readFile(file, 'utf8')).split(certificateAt);
        await rm(file);
        await ensure();
        const [, newCertificate = ''] = (await readFile(file, 'utf8')).split(certificateAt);
        await writeFile(file, `${oldKey}${certificateAt}${newCertificate}`);
      },
    ],
  ])('are usable after a start with files that are %s, and do not change again', async (_, damage) => {
    for (const file of ['server.pem', 'ca-1.pem', 'ca.pem']) {
      await ensure();
      await damage(join(directory, file));
      const repaired = await ensure();
      expect(await handshake(repaired, await readFile(repaired.caFile, 'utf8'), 'localhost')).toBe('ok');
      expect(await ensure()).toEqual(repaired);
    }
  });

  it('are complete after a start that was killed at any step', async () => {
    const made = await ensure();
    const files = ['ca-1.pem', 'server.pem', 'ca.pem'];
    for (let written = 0; written < files.length; written++) {
      for (const file of files.slice(written)) await rm(join(directory, file), { force: true });
      await writeFile(join(directory, '.ca-1.pem.0123456789abcdef.tmp'), made.keyPem.slice(0, 50));
      const after = await ensure();
      expect(await handshake(after, await readFile(after.caFile, 'utf8'), 'localhost')).toBe('ok');
    }
  });

  it('say what is wrong with a host name, and with a directory that cannot be written', async () => {
    for (const bad of ['', 'https://localhost', 'a b', 'fe80::1%eth0'])
      await expect(ensure({ hostnames: [bad] })).rejects.toMatchObject({ code: 'invalid' });
    await expect(ensure({ hostnames: [] })).rejects.toMatchObject({ code: 'invalid' });
    const file = join(directory, 'file');
    await writeFile(file, '');
    const error = await ensure({ directory: file }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(AppError);
    expect((error as AppError).message).toContain(file);
  });
});
