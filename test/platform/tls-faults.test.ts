/** What is said of a server whose certificate is refused: its owner can correct it. */
import { KeyObject, type webcrypto } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { createGuardedFetch, FetchError } from '#platform/guarded-fetch.ts';
import { parseCidrs } from '#platform/network-guard.ts';
import { loadX509 } from '#platform/x509-library.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { failureOf } from '../harness/failure.ts';

const x509 = await loadX509();
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const day = 86_400_000;

interface Made {
  readonly name: string;
  readonly keys: webcrypto.CryptoKeyPair;
  readonly pem: string;
}

async function make(name: string, issuer?: Made, { isCa = false, days = [-1, 30] } = {}): Promise<Made> {
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const [from = 0, to = 0] = days;
  const certificate = await x509.X509CertificateGenerator.create({
    subject: `CN=${name}`,
    issuer: `CN=${issuer?.name ?? name}`,
    notBefore: new Date(Date.now() + from * day),
    notAfter: new Date(Date.now() + to * day),
    signingAlgorithm: algorithm,
    publicKey: keys.publicKey,
    signingKey: (issuer?.keys ?? keys).privateKey,
    extensions: [
      new x509.BasicConstraintsExtension(isCa),
      new x509.SubjectAlternativeNameExtension([{ type: 'dns', value: name }]),
    ],
  });
  return { name, keys, pem: `${certificate.toString('pem')}\n` };
}

const root = await make('Root', undefined, { isCa: true });
const between = await make('Between', root, { isCa: true });
const hook = await make('localhost', between);

/** The public text on a server that shows this chain. */
async function said(key: Made, chain: string): Promise<string> {
  const keyPem = KeyObject.from(key.keys.privateKey).export({ type: 'pkcs8', format: 'pem' });
  const server = createServer({ key: keyPem, cert: chain }, (_request, response) => response.end());
  server.on('tlsClientError', () => undefined).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const guarded = createGuardedFetch({
    extraCa: root.pem,
    lookup: async () => [{ address: '127.0.0.1', family: 4 }],
  });
  closeAtEnd(async () => {
    await guarded.close();
    server.closeAllConnections();
    server.close();
  });
  const request = {
    url: `https://localhost:${(server.address() as AddressInfo).port}/`,
    method: 'GET',
    allowedNetworks: parseCidrs(['127.0.0.0/8']),
    timeoutMs: 5_000,
    responseBytesMax: 9,
  };
  return (await failureOf(FetchError, guarded.fetch(request))).publicMessage;
}

test.each<[string, () => Promise<[Made, string]>, RegExp]>([
  ['whose chain is incomplete', async () => [hook, hook.pem], /chain of its certificate is incomplete/],
  [
    'that has expired',
    async () => {
      const old = await make('localhost', root, { days: [-9, -1] });
      return [old, old.pem];
    },
    /its certificate has expired\.$/,
  ],
  [
    'that is not valid yet',
    async () => {
      const early = await make('localhost', root, { days: [1, 9] });
      return [early, early.pem];
    },
    /not valid yet\.$/,
  ],
  [
    'for another name',
    async () => {
      const other = await make('hooks.example.com', root);
      return [other, other.pem];
    },
    /is for another name\.$/,
  ],
  [
    'that is self-signed',
    async () => {
      const own = await make('localhost');
      return [own, own.pem];
    },
    /is self-signed\.$/,
  ],
  [
    'of an unknown authority',
    async () => {
      const elsewhere = await make('Elsewhere', undefined, { isCa: true });
      const its = await make('localhost', elsewhere);
      return [its, its.pem + elsewhere.pem];
    },
    /an authority that is not trusted here/,
  ],
])('a certificate %s', async (_what, shown, text) => {
  expect(await said(...(await shown()))).toMatch(text);
});
