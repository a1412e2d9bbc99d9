/** What the doctor finds of the certificates that this machine's servers show, beside those in the files. */
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:tls';
import { type Clock, systemClock } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import type { Configuration } from '../configuration.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

const timeoutMs = 3_000;
const warnDays = 14;
const dayMs = 86_400_000;

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
  const days = Math.floor((served.validToDate.getTime() - clock.nowMs()) / dayMs);
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
