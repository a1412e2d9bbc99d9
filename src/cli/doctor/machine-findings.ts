/** What the doctor finds on this machine: versions, disk, certificate, and the webhook endpoint's port. */
import { X509Certificate } from 'node:crypto';
import { readFile, statfs } from 'node:fs/promises';
import { isIP } from 'node:net';
import { arch, platform } from 'node:os';
import { type Clock, systemClock } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import { hostInUrl } from '#platform/http/url-host.ts';
import { anyNetwork } from '#platform/network-guard.ts';
import { ownManifest } from '#platform/own-package.ts';
import type { Installation } from '../installation.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

const diskFailBytes = 200e6;
const diskWarnBytes = 2e9;
const certificateWarnDays = 14;
const dayMs = 86_400_000;

/** The versions of this program and of Node. */
export function findVersions(): DoctorFinding {
  const { version, engines } = ownManifest();
  const text = `sourcing-bridge ${version}, Node ${process.versions.node}, ${platform()} ${arch()}`;
  const nodeMin = engines.node.replace('>=', '');
  return process.versions.node.localeCompare(nodeMin, 'en', { numeric: true }) >= 0
    ? ok('versions', text)
    : fail('versions', text, `Run it with Node ${nodeMin} or newer.`);
}

/** How much space is left for the data folder. */
export async function findDisk(
  dataDir: string,
  spaceOf: (folder: string) => Promise<{ bavail: number; bsize: number }> = statfs,
): Promise<DoctorFinding> {
  const { bavail, bsize } = await spaceOf(dataDir);
  const free = bavail * bsize;
  const text = `${(free / 1e9).toFixed(1)} GB free for ${dataDir}`;
  const todo = 'Free some space, or move the data folder: PostgreSQL stops when its disk is full.';
  if (free < diskFailBytes) return fail('disk', text, todo);
  return free < diskWarnBytes ? warn('disk', text, todo) : ok('disk', text);
}

/** The certificate of the webhook endpoint: its name and how long it is valid. */
export async function findCertificate(
  { configuration: { bridge }, certificates }: Installation,
  clock: Clock = systemClock,
): Promise<DoctorFinding> {
  const name = 'certificate';
  try {
    const pem = bridge.tls ? await readFile(bridge.tls.cert_file, 'utf8') : (certificates?.certPem ?? '');
    const certificate = new X509Certificate(pem);
    const days = Math.floor((certificate.validToDate.getTime() - clock.nowMs()) / dayMs);
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
    return days < certificateWarnDays ? warn(name, text, todo) : ok(name, text);
  } catch (error) {
    return fail(name, `it cannot be read: ${errorText(error)}`, 'Set bridge.tls.cert_file to a certificate in PEM.');
  }
}

function isFor(certificate: X509Certificate, host: string): boolean {
  const found = isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host);
  return found !== undefined;
}

/** Whether a receiver answers at the public address, as this machine sees it. */
export async function findEndpoint({
  configuration: { bridge, redis_url },
  certificates,
  outgoing,
}: Installation): Promise<DoctorFinding> {
  const url = `https://${hostInUrl(bridge.public_host)}:${bridge.port}/healthz`;
  const name = 'webhook endpoint';
  try {
    const { status } = await outgoing.fetch({
      url,
      method: 'GET',
      allowedNetworks: anyNetwork,
      timeoutMs: 5_000,
      responseBytesMax: 10_000,
    });
    if (status === 200) return ok(name, `a receiver answers at ${url}`);
    return warn(
      name,
      `${url} answers ${status}`,
      'Another program may use this port, or a proxy in front refuses the request: look there, or change bridge.port.',
    );
  } catch (error) {
    const where = redis_url ? ', here or on another machine' : '';
    const trust = certificates === undefined ? '' : ` Programs that call it must trust ${certificates.caFile}.`;
    return warn(
      name,
      `no receiver answers at ${url}: ${errorText(error)}`,
      `Start a process with the role receive or all${where}; if one runs, check the name, the port and the firewall. ` +
        `Without a receiver notifications are lost, and the feeds are read on schedule only.${trust}`,
    );
  }
}
