/** The key of the local authority was stolen, or somebody else uses it: whom does a client that trusts it believe? */
import { createPrivateKey, webcrypto } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { expect, test } from 'vitest';
import { systemClock } from '#platform/clock.ts';
import { createGuardedFetch } from '#platform/guarded-fetch.ts';
import { ensureLocalCertificates } from '#platform/local-ca.ts';
import { silentLogger } from '#platform/log.ts';
import { parseCidrs } from '#platform/network-guard.ts';
import { loadX509 } from '#platform/x509-library.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const ensure = (directory: string, hostnames: readonly string[]) =>
  ensureLocalCertificates({ directory, hostnames, clock: systemClock, log: silentLogger });

/** A server certificate for any names, signed with the authority's own key, as a thief makes it. */
async function forge(directory: string, names: { type: 'dns' | 'ip'; value: string }[]) {
  const x509 = await loadX509();
  const pem = await readFile(join(directory, 'ca-1.pem'), 'utf8');
  const authority = new x509.X509Certificate(pem.slice(pem.indexOf('-----BEGIN CERTIFICATE')));
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: '01',
    subject: [{ CN: ['forged'] }],
    issuer: authority.subjectName.toJSON(),
    notBefore: new Date(Date.now() - 3_600_000),
    notAfter: new Date(Date.now() + 3_600_000),
    signingAlgorithm: algorithm,
    publicKey: keys.publicKey,
    signingKey: createPrivateKey(pem).toCryptoKey(algorithm, false, ['sign']),
    extensions: [
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(names),
    ],
  });
  const key = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
  return {
    cert: certificate.toString('pem'),
    key: `-----BEGIN PRIVATE KEY-----\n${key}\n-----END PRIVATE KEY-----\n`,
  };
}

async function serve(using: { cert: string; key: string }): Promise<number> {
  const server = createServer(using, (_request, response) => response.end('believed'));
  server.on('tlsClientError', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd(() => new Promise((resolve) => server.close(resolve)));
  return (server.address() as AddressInfo).port;
}

/** What a TLS client that trusts only this authority says to the server under this name: `ok`, or why not. */
function handshake(port: number, ca: string, servername: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', ca, servername }, () => {
      resolve('ok');
      socket.destroy();
    });
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.message));
  });
}

test.each([
  ['another name', 'bank.example', [{ type: 'dns', value: 'bank.example' }], 'permitted subtree violation'],
  ['any name', 'bank.example', [{ type: 'dns', value: '*.example' }], 'permitted subtree violation'],
  ['an address', '', [{ type: 'ip', value: '127.0.0.1' }], 'excluded subtree violation'],
  [
    'a name of its own and another one',
    'bridge.test',
    [
      { type: 'dns', value: 'bridge.test' },
      { type: 'dns', value: 'bank.example' },
    ],
    'permitted subtree violation',
  ],
  ['its own name', 'bridge.test', [{ type: 'dns', value: 'bridge.test' }], 'ok'],
] as const)(
  'its signature for %s is worth as much as its name constraints say',
  async (_what, name, forged, outcome) => {
    const directory = await scratchFolder();
    const { caPem } = await ensure(directory, ['bridge.test']);
    expect(await handshake(await serve(await forge(directory, [...forged])), caPem, name)).toBe(outcome);
  },
);

test('an authority for addresses alone vouches for no name', async () => {
  const directory = await scratchFolder();
  const { caPem, certPem, keyPem } = await ensure(directory, ['127.0.0.1', '::1']);
  expect(await handshake(await serve({ cert: certPem, key: keyPem }), caPem, '')).toBe('ok');
  const port = await serve(await forge(directory, [{ type: 'dns', value: 'bank.example' }]));
  expect(await handshake(port, caPem, 'bank.example')).toBe('excluded subtree violation');
});

test('our client says that the certificate was not accepted when the authority may not vouch for the name', async () => {
  const directory = await scratchFolder();
  const { caPem } = await ensure(directory, ['bridge.test']);
  const port = await serve(await forge(directory, [{ type: 'dns', value: 'bank.example' }]));
  const guarded = createGuardedFetch({
    extraCa: caPem,
    lookup: async () => [{ address: '127.0.0.1', family: 4 }],
  });
  closeAtEnd(() => guarded.close());
  const request = {
    url: `https://bank.example:${port}/`,
    method: 'GET',
    allowedNetworks: parseCidrs(['127.0.0.0/8']),
    timeoutMs: 10_000,
    responseBytesMax: 100,
  };
  await expect(guarded.fetch(request)).rejects.toMatchObject({ reason: 'tls' });
});

test('our client trusts it only for the hosts that it was made for', async () => {
  const directory = await scratchFolder();
  const { caPem, certPem, keyPem } = await ensure(directory, ['localhost', 'bridge.test']);
  const port = await serve({ cert: certPem, key: keyPem });
  const guarded = createGuardedFetch({
    extraCa: caPem,
    extraCaHosts: ['localhost'],
    lookup: async () => [{ address: '127.0.0.1', family: 4 }],
  });
  closeAtEnd(() => guarded.close());
  const get = (host: string) =>
    guarded.fetch({
      url: `https://${host}:${port}/`,
      method: 'GET',
      allowedNetworks: parseCidrs(['127.0.0.0/8']),
      timeoutMs: 10_000,
      responseBytesMax: 100,
    });
  expect((await get('localhost')).body.toString()).toBe('believed');
  // The certificate names this host, too, and its chain is right: only the trust is missing.
  await expect(get('bridge.test')).rejects.toMatchObject({ reason: 'tls' });
});
