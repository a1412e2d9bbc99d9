/** What the doctor finds on the access to the console: whether people can log in, and whether that is safe. */
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import { isLoopback } from '#console/access/loopback.ts';
import { hasUsers } from '#console/access/users.ts';
import type { Sql } from '#platform/database/sql.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

const name = 'console';

export async function findConsole(sql: Sql, settings: BridgeSettings): Promise<DoctorFinding> {
  const { console_host: host, console_pages, console_tls, console_url, console_token, console_login } = settings;
  if (!console_pages)
    return console_token === undefined && !isLoopback(host)
      ? warn(name, 'no console here, and /metrics answers to no one', 'Set bridge.console_token for your monitoring.')
      : ok(name, 'no console here (bridge.console_pages)');
  if (isLoopback(host)) return ok(name, `on this machine alone (${host}): console link prints a link that logs in`);
  if (console_login.openid === undefined && !(await hasUsers(sql)))
    return fail(
      name,
      `on ${host}, and no one could log in: the bridge does not start`,
      'Add an account (console users add <name>), or set bridge.console_login.openid, bridge.console_host or ' +
        'bridge.console_pages.',
    );
  if (!console_tls && !console_url?.startsWith('https:'))
    return warn(
      name,
      `on ${host} without TLS: passwords and sessions cross the network in the open`,
      'Set bridge.console_tls, or put a proxy before it and name its URL in bridge.console_url.',
    );
  return ok(name, `on ${host}, with a login`);
}
