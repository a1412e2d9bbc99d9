/** Certificate files as an operator gets them wrong: each fault is named with its file before a server is started. */
import { createPrivateKey, KeyObject, type webcrypto } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readCertificate } from '#cli/read-certificate.ts';
import { loadX509 } from '#platform/x509-library.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';

const x509 = await loadX509();
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const folder = await scratchFolder();
const now = Date.now();
const day = 86_400_000;

interface Made {
  readonly name: string;
  readonly keys: webcrypto.CryptoKeyPair;
  readonly pem: string;
}

async function make(name: string, issuer?: Made): Promise<Made> {
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.create({
    subject: `CN=${name}`,
    issuer: `CN=${issuer?.name ?? name}`,
    notBefore: new Date(now - day),
    notAfter: new Date(now + 30 * day),
    signingAlgorithm: algorithm,
    publicKey: keys.publicKey,
    signingKey: (issuer?.keys ?? keys).privateKey,
  });
  return { name, keys, pem: `${certificate.toString('pem')}\n` };
}

const keyOf = ({ keys }: Made) => KeyObject.from(keys.privateKey);
const pemOf = (made: Made) => keyOf(made).export({ type: 'pkcs8', format: 'pem' }).toString();

const root = await make('Root');
const between = await make('Between', root);
const server = await make('hooks.example.com', between);
const [certFile, keyFile] = [join(folder, 'server.crt'), join(folder, 'server.key')];

async function reading(certPem: string, keyPem: string) {
  await writeFile(certFile, certPem);
  await writeFile(keyFile, keyPem);
  return readCertificate({ cert_file: certFile, key_file: keyFile }, 'bridge.tls');
}

test('a certificate followed by its issuers is taken as it stands, also with the issuers left out', async () => {
  const chain = `${server.pem}${between.pem}${root.pem}`;
  expect(await reading(chain, pemOf(server))).toEqual({ certPem: chain, keyPem: pemOf(server) });
  expect((await reading(server.pem, pemOf(server))).certPem).toBe(server.pem);
});

test('a key with its parameters before it, as openssl ecparam writes it, is taken', async () => {
  const parameters = '-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n';
  const sec1 = createPrivateKey(pemOf(server)).export({ type: 'sec1', format: 'pem' }).toString();
  await expect(reading(server.pem, parameters + sec1)).resolves.toMatchObject({ certPem: server.pem });
});

test.each([
  ['another key', server.pem, pemOf(root)],
  ['the issuer first', between.pem + server.pem, pemOf(server)],
  [
    'an encrypted key',
    server.pem,
    keyOf(server).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }).toString(),
  ],
  ['no key', server.pem, 'nothing'],
  ['an empty key', server.pem, ''],
  ['an empty certificate', '', pemOf(server)],
  ['no certificate', pemOf(server), pemOf(server)],
  ['a damaged certificate', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n', pemOf(server)],
])('%s is refused with the names of both files', async (_what, certPem, keyPem) => {
  await expect(reading(certPem, keyPem)).rejects.toMatchObject({
    code: 'invalid',
    publicMessage: expect.stringMatching(
      /server\.crt \(bridge\.tls\.cert_file\) with the key in the file .*server\.key \(bridge\.tls\.key_file\): .*must be in PEM/,
    ),
  });
});

test('a pair that OpenSSL refuses, as one with a short key, is refused before a server is to show it', async () => {
  const short = {
    name: 'RSASSA-PKCS1-v1_5',
    hash: 'SHA-256',
    publicExponent: new Uint8Array([1, 0, 1]),
    modulusLength: 1024,
  };
  const keys = await crypto.subtle.generateKey(short, true, ['sign', 'verify']);
  const made = await x509.X509CertificateGenerator.createSelfSigned({
    name: 'CN=short',
    keys,
    signingAlgorithm: short,
  });
  const keyPem = KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' }).toString();
  await expect(reading(`${made.toString('pem')}\n`, keyPem)).rejects.toMatchObject({
    code: 'invalid',
    publicMessage: expect.stringMatching(/server\.crt \(bridge\.tls\.cert_file\).*key too small/),
  });
});

test('a file that cannot be read is named', async () => {
  const files = { cert_file: join(folder, 'nowhere.crt'), key_file: keyFile };
  await expect(readCertificate(files, 'service.tls')).rejects.toThrow(
    /nowhere\.crt \(service\.tls\.cert_file\) cannot be read/,
  );
});
