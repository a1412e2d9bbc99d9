/**
 * Reads a certificate and its key from the files that a setting names. What no server could use is refused here, in words
 * that name the file: otherwise the start ends with the words of OpenSSL, or clients refuse the connection later.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setInterval } from 'node:timers/promises';
import { createSecureContext } from 'node:tls';
import type { Clock } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { ServerCertificate } from '#platform/http/server-certificate.ts';
import type { Logger } from '#platform/log.ts';

export interface CertificateFiles {
  readonly cert_file: string;
  readonly key_file: string;
}

/**
 * Returns the texts of both files. Throws AppError `invalid` for a file that cannot be read, an encrypted key, a key that
 * does not fit, and certificates that are not in the order of the chain. A certificate that is not valid now is logged:
 * what does not need it goes on to work.
 */
export async function readCertificate(
  files: CertificateFiles,
  setting: string,
  { clock, log }: { clock: Clock; log: Logger },
): Promise<{ certPem: string; keyPem: string }> {
  const certificateFile = `${files.cert_file} (${setting}.cert_file)`;
  const keyFile = `${files.key_file} (${setting}.key_file)`;
  const certPem = await readText(files.cert_file, certificateFile);
  const keyPem = await readText(files.key_file, keyFile);
  const chain = certificatesIn(certPem, certificateFile);
  const key = privateKeyIn(keyPem, keyFile);
  checkKey(chain, key, { certificateFile, keyFile });
  checkOrder(chain, certificateFile);
  try {
    createSecureContext({ cert: certPem, key: keyPem });
  } catch (cause) {
    throw new AppError(
      'invalid',
      `TLS cannot use the certificate in the file ${certificateFile}: ${errorText(cause)}`,
      {
        cause,
      },
    );
  }
  for (const certificate of chain) {
    const { validFromDate, validToDate } = certificate;
    const name = nameOf(certificate);
    if (validToDate.getTime() < clock.nowMs())
      log.error(
        { setting },
        `clients will refuse the certificate ${name} in ${files.cert_file}: it expired on ${dayOf(validToDate)}`,
      );
    else if (validFromDate.getTime() > clock.nowMs())
      log.error(
        { setting },
        `clients will refuse the certificate ${name} in ${files.cert_file}: it is valid from ${dayOf(validFromDate)} on`,
      );
  }
  return { certPem, keyPem };
}

const lookEveryMs = 10_000;

/**
 * As `readCertificate`, and looks at the files every ten seconds: a renewed pair is served without a restart. What cannot
 * be served is logged, and the pair before it stays. While files are being replaced they do not fit each other for a
 * moment, so a fault counts when it is seen twice. `signal` ends the looks.
 */
export async function watchCertificate(
  files: CertificateFiles,
  setting: string,
  { clock, log, signal, everyMs = lookEveryMs }: { clock: Clock; log: Logger; signal: AbortSignal; everyMs?: number },
): Promise<ServerCertificate> {
  let served = await readCertificate(files, setting, { clock, log });
  let fault: string | undefined;
  let refused: string | undefined;
  const appliers: (() => void)[] = [];

  async function look(): Promise<void> {
    try {
      const isSame =
        (await readText(files.cert_file, files.cert_file)) === served.certPem &&
        (await readText(files.key_file, files.key_file)) === served.keyPem;
      if (!isSame) {
        served = await readCertificate(files, setting, { clock, log });
        for (const apply of appliers) apply();
        log.info({ setting }, 'the renewed certificate is served');
      }
      fault = undefined;
      refused = undefined;
    } catch (error) {
      const why = errorText(error);
      if (why === fault && why !== refused) {
        log.error(
          { setting },
          `the certificate in the files of ${setting} is not served, the one before it is: ${why}`,
        );
        refused = why;
      }
      fault = why;
    }
  }

  async function lookAgainAndAgain(): Promise<void> {
    for await (const _ of setInterval(everyMs, undefined, { ref: false, signal })) await look();
  }

  // It ends by the signal only.
  void lookAgainAndAgain().catch(() => undefined);
  return {
    get certPem() {
      return served.certPem;
    },
    get keyPem() {
      return served.keyPem;
    },
    get refused() {
      return refused;
    },
    onRenewed: (apply) => void appliers.push(apply),
  };
}

async function readText(path: string, file: string): Promise<string> {
  return readFile(path, 'utf8').catch((cause: unknown) => {
    throw new AppError('invalid', `The file ${file} cannot be read.`, { cause });
  });
}

function certificatesIn(pem: string, file: string): [X509Certificate, ...X509Certificate[]] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  try {
    const [own, ...others] = blocks.map((block) => new X509Certificate(block));
    if (own) return [own, ...others];
  } catch (cause) {
    throw new AppError('invalid', `The file ${file} holds a certificate that cannot be read.`, { cause });
  }
  throw new AppError('invalid', `The file ${file} holds no certificate in PEM.`);
}

function privateKeyIn(pem: string, file: string): KeyObject {
  if (/^(-----BEGIN ENCRYPTED PRIVATE KEY-----|Proc-Type: 4,ENCRYPTED)/m.test(pem))
    throw new AppError(
      'invalid',
      `The key in the file ${file} is encrypted, and a start cannot ask for its passphrase. Decrypt it: openssl pkey -in <file> -out <new file>`,
    );
  try {
    return createPrivateKey(pem);
  } catch (cause) {
    throw new AppError('invalid', `The file ${file} holds no private key in PEM.`, { cause });
  }
}

function checkKey(
  [own, ...others]: readonly [X509Certificate, ...X509Certificate[]],
  key: KeyObject,
  { certificateFile, keyFile }: { certificateFile: string; keyFile: string },
): void {
  if (own.checkPrivateKey(key)) return;
  const fitting = others.find((other) => other.checkPrivateKey(key));
  throw new AppError(
    'invalid',
    fitting
      ? `The certificate of the key, ${nameOf(fitting)}, must stand first in the file ${certificateFile}, before those that issued it.`
      : `The key in the file ${keyFile} does not belong to the certificate ${nameOf(own)} in the file ${certificateFile}.`,
  );
}

function checkOrder(chain: readonly X509Certificate[], file: string): void {
  for (const [index, certificate] of chain.entries()) {
    const next = chain[index + 1];
    if (next && !certificate.checkIssued(next))
      throw new AppError(
        'invalid',
        `In the file ${file}, the certificate ${nameOf(next)} stands after ${nameOf(certificate)} and did not issue it. ` +
          'Each must be followed by its issuer.',
      );
  }
}

/** Its subject in one line. */
function nameOf(certificate: X509Certificate): string {
  return `"${(certificate.subject || certificate.subjectAltName || 'without a name').replaceAll('\n', ', ')}"`;
}

function dayOf(date: Date): string {
  return date.toISOString().slice(0, 10);
}
