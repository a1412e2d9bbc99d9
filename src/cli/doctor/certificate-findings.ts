/** What the doctor finds of certificates: whether the webhook endpoint's is for its name, and how long each is valid. */
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { type Clock, systemClock } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import type { Installation } from '../installation.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

const warnDays = 14;
const dayMs = 86_400_000;
const renew = 'Renew it: it is served without a restart.';

/** A line for the endpoint's certificate, and for each other that the settings name. */
export async function findCertificates(
  { configuration: { service, bridge }, certificates }: Installation,
  clock: Clock = systemClock,
): Promise<DoctorFinding[]> {
  const { tls, public_host: host } = bridge;
  const pem = tls ? readFile(tls.cert_file, 'utf8') : Promise.resolve(certificates?.certPem ?? '');
  const findings = [
    await findOne('certificate', pem, {
      what: `for ${host}, ${tls ? 'your own' : 'of the local authority'}`,
      todo: tls ? renew : 'Restart the receivers: a start makes a new one 30 days before the end.',
      host,
      clock,
    }),
  ];
  for (const [setting, files] of [
    ['service.tls', service.tls],
    ['bridge.console_tls', bridge.console_tls],
  ] as const)
    if (files)
      findings.push(
        await findOne(`certificate of ${setting}`, readFile(files.cert_file, 'utf8'), {
          what: files.cert_file,
          todo: renew,
          clock,
        }),
      );
  return findings;
}

async function findOne(
  name: string,
  pem: Promise<string>,
  { what, todo, host, clock }: { what: string; todo: string; host?: string; clock: Clock },
): Promise<DoctorFinding> {
  try {
    const certificate = new X509Certificate(await pem);
    if (host !== undefined && !isFor(certificate, host))
      return fail(
        name,
        `it is not for ${host}`,
        'Get a certificate for that name, or set bridge.public_host to the name of this one.',
      );
    const days = Math.floor((certificate.validToDate.getTime() - clock.nowMs()) / dayMs);
    const text = `${what}, expires in ${days} days`;
    if (days < 0) return fail(name, text, todo);
    return days < warnDays ? warn(name, text, todo) : ok(name, text);
  } catch (error) {
    return fail(name, `it cannot be read: ${errorText(error)}`, 'Set cert_file to a certificate in PEM.');
  }
}

function isFor(certificate: X509Certificate, host: string): boolean {
  return (isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host)) !== undefined;
}
