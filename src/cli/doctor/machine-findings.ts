/** What the doctor finds on this machine: versions, disk, and the webhook endpoint's port. */
import { statfs } from 'node:fs/promises';
import { arch, platform } from 'node:os';
import { errorText } from '#platform/errors.ts';
import { hostInUrl } from '#platform/http/url-host.ts';
import { anyNetwork } from '#platform/network-guard.ts';
import { ownManifest } from '#platform/own-package.ts';
import type { Installation } from '../installation.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

const diskFailBytes = 200e6;
const diskWarnBytes = 2e9;

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
    const authority = certificates?.caFile ?? bridge.ca_file;
    const trust = authority === undefined ? '' : ` Programs that call it must trust ${authority}.`;
    return warn(
      name,
      `no receiver answers at ${url}: ${errorText(error)}`,
      `Start a process with the role receive or all${where}; if one runs, check the name, the port and the firewall. ` +
        `Without a receiver notifications are lost, and the feeds are read on schedule only.${trust}`,
    );
  }
}
