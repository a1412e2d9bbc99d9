/**
 * HTTPS on this machine without an outside authority: a certificate authority made at the first start, and a server
 * certificate signed by it. Clients trust `caFile`; verification stays on everywhere. The authority is constrained to
 * the host names that it was made for: a client that trusts it trusts it for no other host, even if its key is stolen.
 *
 * The files of the directory are each written in one step, so that a kill at any instant leaves a usable set:
 * - `ca-1.pem`: the authority's key and certificate, mode 0600, created once and never overwritten. When it is damaged
 *   about to expire, or for other host names, `ca-2.pem` follows, and so on: the lowest usable number counts. So all
 *   processes that read the same files for the same host names choose the same authority, without locks.
 * - `server.pem`: the server's key and certificate, mode 0600, replaced when it no longer fits.
 * - `ca.pem`: the certificate of the authority in use, for clients; each start writes it again when it is missing or
 *   differs.
 */
import { createPrivateKey, KeyObject, randomBytes, webcrypto, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { join } from 'node:path';
import type { Clock } from './clock.ts';
import { createFileOnce, readFileIfAny, replaceFile } from './durable-file.ts';
import { AppError, errorText } from './errors.ts';
import type { Logger } from './log.ts';
import { nameConstraints, nameConstraintsOid } from './name-constraints.ts';
import { loadX509 } from './x509-library.ts';

const dayMs = 86_400_000;
const caDays = 3_650;
// Some systems accept no server certificate of more than 825 days, even from an authority that the user has added.
const serverDays = 365;
const renewBeforeDays = 30;
// The client's clock may be behind.
const backdatedMs = dayMs;
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;

export interface LocalCertificates {
  /** The authority's certificate, which a client must trust. */
  caPem: string;
  certPem: string;
  keyPem: string;
  /** Path of a file with `caPem`, for other programs (NODE_EXTRA_CA_CERTS, curl --cacert). */
  caFile: string;
}

interface KeyAndCertificate {
  keyPem: string;
  certPem: string;
  certificate: X509Certificate;
}

/**
 * Reads the certificates, and makes those that are missing, damaged, within 30 days of their end or for other host
 * names (`localhost`, `127.0.0.1`, `::1`, `*.test.example`). Safe to call again at any time, by several processes at
 * once. Throws an `internal` AppError that names the directory when its files cannot be read or written, and an
 * `invalid` one for an invalid host name.
 */
export async function ensureLocalCertificates(options: {
  directory: string;
  hostnames: readonly string[];
  clock: Clock;
  log: Logger;
}): Promise<LocalCertificates> {
  const { directory, clock, log } = options;
  const hostnames = canonicalHostnames(options.hostnames);
  try {
    const ca = await ensureAuthority(directory, hostnames, clock.nowMs(), log);
    const server = await ensureServer(directory, ca, hostnames, clock.nowMs(), log);
    const caFile = join(directory, 'ca.pem');
    if ((await readFileIfAny(caFile)) !== ca.certPem) await replaceFile(caFile, ca.certPem, 0o644);
    return { caPem: ca.certPem, certPem: server.certPem, keyPem: server.keyPem, caFile };
  } catch (error) {
    throw new AppError('internal', `The local certificates in ${directory} cannot be used: ${errorText(error)}`, {
      cause: error,
    });
  }
}

async function ensureAuthority(
  directory: string,
  hostnames: readonly string[],
  nowMs: number,
  log: Logger,
): Promise<KeyAndCertificate> {
  const constraints = nameConstraints(hostnames);
  for (let number = 1; ; ) {
    const file = join(directory, `ca-${number}.pem`);
    const text = await readFileIfAny(file);
    if (text === undefined) {
      const made = await makeAuthority(constraints, nowMs);
      // Whichever process created the file, the next round reads it: so all processes use the same authority.
      if (await createFileOnce(file, `${made.keyPem}${made.certPem}`, 0o600))
        log.info({ file }, 'made a local certificate authority');
      continue;
    }
    const found = readKeyAndCertificate(text);
    if (found?.certificate.ca && found.certificate.verify(found.certificate.publicKey)) {
      const fits = found.certificate.raw.includes(constraints);
      if (fits && lastsUntil(found.certificate) - nowMs > renewBeforeDays * dayMs) return found;
    } else log.warn({ file }, 'a damaged certificate authority is not used; clients must trust the new ca.pem');
    number += 1;
  }
}

async function ensureServer(
  directory: string,
  ca: KeyAndCertificate,
  hostnames: readonly string[],
  nowMs: number,
  log: Logger,
): Promise<KeyAndCertificate> {
  const file = join(directory, 'server.pem');
  const text = await readFileIfAny(file);
  const found = text === undefined ? undefined : readKeyAndCertificate(text);
  if (found && serves(found.certificate, ca.certificate, hostnames, nowMs)) return found;

  const made = await makeServer(ca, hostnames, nowMs);
  const content = `${made.keyPem}${made.certPem}`;
  if (text !== undefined) await replaceFile(file, content, 0o600);
  else if (!(await createFileOnce(file, content, 0o600))) {
    // Another process was first: use its certificate, so that both present the same one.
    const theirs = readKeyAndCertificate((await readFileIfAny(file)) ?? '');
    if (theirs && serves(theirs.certificate, ca.certificate, hostnames, nowMs)) return theirs;
    await replaceFile(file, content, 0o600);
  }
  log.info(
    { file, hostnames, until: new Date(lastsUntil(made.certificate)).toISOString() },
    'made a server certificate',
  );
  return made;
}

function serves(server: X509Certificate, ca: X509Certificate, hostnames: readonly string[], nowMs: number): boolean {
  return (
    server.checkIssued(ca) &&
    server.verify(ca.publicKey) &&
    Date.parse(server.validFrom) <= nowMs &&
    lastsUntil(server) - nowMs > renewBeforeDays * dayMs &&
    namesOf(server) === hostnames.join()
  );
}

/** The names of the certificate as `canonicalHostnames` returns them, joined; undefined when it would refuse them. */
function namesOf(certificate: X509Certificate): string | undefined {
  const names = (certificate.subjectAltName ?? '').split(', ').map((name) => name.replace(/^(DNS|IP Address):/, ''));
  try {
    return canonicalHostnames(names).join();
  } catch {
    return undefined;
  }
}

/** Lower case, without brackets, IPv6 in its short form, sorted, each once. */
function canonicalHostnames(hostnames: readonly string[]): string[] {
  const canonical = hostnames.map((hostname) => {
    const name = hostname.toLowerCase().replace(/^\[(.*)\]$/, '$1');
    if (isIP(name) === 6 && !name.includes('%')) return new URL(`http://[${name}]/`).hostname.slice(1, -1);
    if (isIP(name) === 4 || /^(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*$/.test(name)) return name;
    throw new AppError('invalid', `${JSON.stringify(hostname)} is not a host name or an IP address for a certificate.`);
  });
  if (canonical.length === 0) throw new AppError('invalid', 'A server certificate needs at least one host name.');
  return [...new Set(canonical)].sort();
}

/** Reads a private key and the certificate that belongs to it; undefined when the text holds anything else. */
function readKeyAndCertificate(text: string): KeyAndCertificate | undefined {
  const pem =
    /^(-----BEGIN PRIVATE KEY-----[^-]+-----END PRIVATE KEY-----\n)(-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n)$/;
  const [, keyPem, certPem] = pem.exec(text) ?? [];
  if (keyPem === undefined || certPem === undefined) return undefined;
  try {
    const certificate = new X509Certificate(certPem);
    return certificate.checkPrivateKey(createPrivateKey(keyPem)) ? { keyPem, certPem, certificate } : undefined;
  } catch {
    return undefined;
  }
}

function lastsUntil(certificate: X509Certificate): number {
  return Date.parse(certificate.validTo);
}

async function makeAuthority(constraints: Buffer, nowMs: number): Promise<KeyAndCertificate> {
  const x509 = await loadX509();
  const keys = await makeKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serialNumber(),
    // One trust store may hold several authorities: the name tells them apart.
    name: [{ CN: [`sourcing-bridge local authority ${randomBytes(4).toString('hex')}`] }],
    notBefore: new Date(nowMs - backdatedMs),
    notAfter: new Date(nowMs + caDays * dayMs),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new x509.Extension(nameConstraintsOid, true, constraints),
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return keyAndCertificate(keys.privateKey, certificate.toString('pem'));
}

async function makeServer(
  ca: KeyAndCertificate,
  hostnames: readonly string[],
  nowMs: number,
): Promise<KeyAndCertificate> {
  const x509 = await loadX509();
  const authority = new x509.X509Certificate(ca.certPem);
  const keys = await makeKeys();
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    subject: [{ CN: ['sourcing-bridge'] }],
    issuer: authority.subjectName.toJSON(),
    notBefore: new Date(nowMs - backdatedMs),
    notAfter: new Date(Math.min(nowMs + serverDays * dayMs, lastsUntil(ca.certificate))),
    signingAlgorithm: algorithm,
    publicKey: keys.publicKey,
    signingKey: createPrivateKey(ca.keyPem).toCryptoKey(algorithm, false, ['sign']),
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(
        hostnames.map((name) => ({ type: isIP(name) === 0 ? 'dns' : 'ip', value: name })),
      ),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(authority),
    ],
  });
  return keyAndCertificate(keys.privateKey, certificate.toString('pem'));
}

function makeKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
}

/** 15 random bytes after a first byte that keeps the number positive and of full length. */
function serialNumber(): string {
  return `01${randomBytes(15).toString('hex')}`;
}

function keyAndCertificate(privateKey: webcrypto.CryptoKey, pem: string): KeyAndCertificate {
  const keyPem = KeyObject.from(privateKey).export({ type: 'pkcs8', format: 'pem' }).toString();
  const certPem = `${pem.trim()}\n`;
  return { keyPem, certPem, certificate: new X509Certificate(certPem) };
}
