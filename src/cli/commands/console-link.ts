/** `console link`: prints a link that logs in to the console once, where it listens on this machine alone. */

import type { BridgeSettings } from '#bridge/settings/settings.ts';
import { createLoginLink, linkMs } from '#console/access/login-links.ts';
import { isLoopback } from '#console/access/loopback.ts';
import type { ViewerRole } from '#console/access/viewer.ts';
import { machineUser } from '#platform/audit-log.ts';
import { AppError } from '#platform/errors.ts';
import { commandLine } from '#platform/own-package.ts';
import { type BridgeCommandOptions, findFlow, withBridge } from '../bridge-command.ts';
import { print } from '../output.ts';

export interface LinkOptions extends BridgeCommandOptions {
  role: ViewerRole;
  flows?: string[];
}

/** The link names the user of this machine: so do the actions of its session. */
export function runConsoleLink(options: LinkOptions): Promise<number> {
  const link = withBridge(
    options,
    async ({ settings, database, clock, perform }) => {
      const url = consoleUrlOf(settings);
      for (const flow of options.flows ?? []) findFlow(settings, flow);
      const viewer = { name: machineUser(), role: options.role, flows: options.flows ?? ('all' as const) };
      const details = { role: viewer.role, flows: viewer.flows };
      const path = await perform({ what: 'console.link', object: `user ${viewer.name}`, details }, () =>
        createLoginLink(database, viewer, clock),
      );
      print(options, { url: `${url}${path}`, seconds: linkMs / 1000, ...details }, () =>
        [`${url}${path}`, `It logs in once, within ${linkMs / 60_000} minutes.`].join('\n'),
      );
      return 0;
    },
    { withoutSecrets: true },
  );
  return link;
}

/** Throws an AppError `invalid` where a link would not log in, or its port is not known. */
function consoleUrlOf({ console_host, console_port, console_tls }: BridgeSettings): string {
  if (!isLoopback(console_host))
    throw new AppError(
      'invalid',
      `The console listens on ${console_host} (bridge.console_host), not on this machine alone: there a link does not ` +
        `log in. Add an account: ${commandLine} console users add <name>`,
    );
  if (console_port === 0)
    throw new AppError('invalid', 'The port of the console is not fixed (bridge.console_port is 0): set it.');
  const host = console_host.includes(':') ? `[${console_host}]` : console_host;
  return `${console_tls ? 'https' : 'http'}://${host}:${console_port}`;
}
