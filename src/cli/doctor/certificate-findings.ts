/** What the doctor finds of certificates: that of the webhook endpoint, and what each server shows beside its file. */
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { connect } from 'node:tls';
import { type Clock, systemClock } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import type { Configuration } from '../configuration.ts';
import type { Installation } from '../installation.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

const timeoutMs = 3_000;
const warnDays = 14;
const dayMs = 86_400_000;

/** The certificate of the webhook endpoint: its name and how long it is valid. */
export async function findCertificate(
  { configuration: { bridge }, certificates }: Installation,
  clock: Clock = systemClock,
): Promise<DoctorFinding> {
  const name = 'certificate';
  try {
    const pem = bridge.tls ? await readFile(bridge.tls.cert_file, 'utf8') : (certificates?.certPem ?? '');
    const certificate = new X509Certificate(pem);
    const days = daysLeft(certificate, clock);
    const text = `for ${bridge.public_host}, ${bridge.tls ? 'your own' : 'of the local authority'}, expires in ${days} days`;
    if (!isFor(certificate, bridge.public_host))
      return fail(
        name,
        `it is not for ${bridge.public_host}`,
        'Get a certificate for that name, or set bridge.public_host to the name of this one.',
      );
    const todo = bridge.tls
      ? 'Renew it: it is served without a restart.'
      : 'Restart the receivers: a start makes a new one 30 days before the end.';
    if (days < 0) return fail(name, text, todo);
    return days < warnDays ? warn(name, text, todo) : ok(name, text);
  } catch (error) {
    return fail(name, `it cannot be read: ${errorText(error)}`, 'Set bridge.tls.cert_file to a certificate in PEM.');
  }
}

function isFor(certificate: X509Certificate, host: string): boolean {
  const found = isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host);
  return found !== undefined;
}

/** Whole days until it ends; negative once it has ended. */
function daysLeft({ validToDate }: X509Certificate, clock: Clock): number {
  return Math.floor((validToDate.getTime() - clock.nowMs()) / dayMs);
}

interface TlsServer {
  /** The setting that names the files: `bridge.tls`. */
  readonly setting: string;
  readonly file: string;
  readonly host: string;
  readonly port: number;
}

/** The servers of this configuration that have a certificate of the operator's. */
export function tlsServersOf({ service, bridge }: Pick<Configuration, 'service' | 'bridge'>): TlsServer[] {
  const of = (setting: string, tls: { cert_file: string } | undefined, host: string, port: number): TlsServer[] =>
    tls ? [{ setting, file: tls.cert_file, host: ['0.0.0.0', '::'].includes(host) ? 'localhost' : host, port }] : [];
  return [
    ...of('service.tls', service.tls, service.host, service.port),
    ...of('bridge.tls', bridge.tls, bridge.host, bridge.port),
    ...of('bridge.console_tls', bridge.console_tls, bridge.console_host, bridge.console_port),
  ];
}

/** Compares the file with what its server shows. A server that does not answer here is no finding: it may run elsewhere. */
export async function findServedCertificate(
  { setting, file, host, port }: TlsServer,
  clock: Clock = systemClock,
): Promise<DoctorFinding[]> {
  const name = `certificate of ${setting}`;
  const inFile = await readFile(file, 'utf8')
    .then((pem) => new X509Certificate(pem))
    .catch((error: unknown) => errorText(error));
  if (typeof inFile === 'string')
    return [fail(name, `${file} cannot be read: ${inFile}`, `Set ${setting}.cert_file to a certificate in PEM.`)];
  const served = await readServed(host, port);
  if (!served) return [];
  const until = (certificate: X509Certificate) => certificate.validToDate.toISOString().slice(0, 10);
  if (served.fingerprint256 !== inFile.fingerprint256)
    return [
      fail(
        name,
        `port ${port} shows another certificate (until ${until(served)}) than ${file} holds (until ${until(inFile)})`,
        'A renewed file is served within 20 seconds. After that the log of the program says why it is not ("is not served").',
      ),
    ];
  const days = daysLeft(served, clock);
  const text = `port ${port} shows the one of ${file}, which expires in ${days} days`;
  return [days < warnDays ? warn(name, text, 'Renew it: it is served without a restart.') : ok(name, text)];
}

/** The certificate that is shown, whoever has signed it; undefined when nobody answers. */
function readServed(host: string, port: number): Promise<X509Certificate | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, rejectUnauthorized: false, timeout: timeoutMs });
    const end = (found?: X509Certificate) => {
      socket.destroy();
      resolve(found);
    };
    socket.once('secureConnect', () => end(socket.getPeerX509Certificate()));
    socket.once('timeout', () => end());
    socket.once('error', () => end());
  });
}
