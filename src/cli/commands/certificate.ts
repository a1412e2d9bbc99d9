/**
 * `certificate`: the local authority signs a certificate for the webhook endpoint, and this writes it where `bridge.tls`
 * and `bridge.ca_file` say. So the authority's key stays in the data folder of this command: the receivers get the
 * certificate and its key, every other process at most the certificate.
 *
 * A certificate that fits stays; within 30 days of its end it is replaced. A process that dies in between leaves whole
 * files, of which the key may be the new one and the certificate the old one: the next call writes both.
 */
import { chmod, mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { systemClock } from '#platform/clock.ts';
import { replaceFile } from '#platform/durable-file.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { ensureLocalCertificates } from '#platform/local-ca.ts';
import { createLogger } from '#platform/log.ts';
import { readConfiguration } from '../configuration.ts';
import { endpointNames, publishAuthority } from '../installation.ts';

/** Throws an AppError `invalid` without the two settings, or for a file that cannot be written. */
export async function runCertificate(options: { config?: string; data?: string }): Promise<number> {
  const configuration = readConfiguration(options.config, options, process.env, { withoutSecrets: true });
  const { tls, ca_file: caFile, public_host: name } = configuration.bridge;
  if (!tls || caFile === undefined)
    throw new AppError('invalid', 'certificate needs bridge.tls and bridge.ca_file: they say where it writes.');
  process.umask(Number.parseInt(configuration.umask, 8));
  const dataDir = resolve(configuration.data_dir);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const certificates = await ensureLocalCertificates({
    directory: join(dataDir, 'tls'),
    hostnames: endpointNames(configuration),
    clock: systemClock,
    log: createLogger({ name: 'certificate', level: 'error' }),
  });
  await write('key_file', tls.key_file, certificates.keyPem, 0o600);
  await write('cert_file', tls.cert_file, certificates.certPem, 0o644);
  await publishAuthority(certificates.caPem, caFile);
  console.log(`The certificate for ${name} is in ${tls.cert_file}. Clients must trust ${caFile}.`);
  return 0;
}

async function write(setting: string, file: string, pem: string, mode: number): Promise<void> {
  try {
    await replaceFile(file, pem, mode);
    // Whatever the umask: other processes read the certificate.
    await chmod(file, mode);
  } catch (cause) {
    throw new AppError('invalid', `The file ${file} (bridge.tls.${setting}) cannot be written: ${errorText(cause)}.`, {
      cause,
    });
  }
}
