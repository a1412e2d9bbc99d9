/**
 * Reads a certificate and its key from the files that a setting names. What no server could use is refused here, in words
 * that name the files.
 */
import { readFile } from 'node:fs/promises';
import { setInterval } from 'node:timers/promises';
import { createSecureContext } from 'node:tls';
import { AppError, errorText } from '#platform/errors.ts';
import type { ServerCertificate } from '#platform/http/server-certificate.ts';
import type { Logger } from '#platform/log.ts';

export interface CertificateFiles {
  readonly cert_file: string;
  readonly key_file: string;
}

/** Returns the texts of both files. Throws AppError `invalid` for files that cannot be read or used. */
export async function readCertificate(
  { cert_file, key_file }: CertificateFiles,
  setting: string,
): Promise<{ certPem: string; keyPem: string }> {
  const certPem = await readText(cert_file, `${setting}.cert_file`);
  const keyPem = await readText(key_file, `${setting}.key_file`);
  try {
    // TLS leaves out what is empty, as a file is while it is being replaced, and serves no certificate at all.
    if (certPem === '' || keyPem === '') throw new Error('a file is empty');
    createSecureContext({ cert: certPem, key: keyPem });
  } catch (cause) {
    throw new AppError(
      'invalid',
      `TLS cannot use the certificate in the file ${cert_file} (${setting}.cert_file) with the key in the file ${key_file} ` +
        `(${setting}.key_file): ${errorText(cause)}. Both must be in PEM, the key not encrypted, and the certificate of the ` +
        'key the first in its file, followed by those that issued it.',
      { cause },
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
  { log, signal, everyMs = lookEveryMs }: { log: Logger; signal: AbortSignal; everyMs?: number },
): Promise<ServerCertificate> {
  let served = await readCertificate(files, setting);
  let fault: string | undefined;
  let refused: string | undefined;
  const appliers: (() => void)[] = [];

  async function look(): Promise<void> {
    try {
      const found = await readCertificate(files, setting);
      if (found.certPem !== served.certPem || found.keyPem !== served.keyPem) {
        served = found;
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

async function readText(path: string, setting: string): Promise<string> {
  return readFile(path, 'utf8').catch((cause: unknown) => {
    throw new AppError('invalid', `The file ${path} (${setting}) cannot be read.`, { cause });
  });
}
