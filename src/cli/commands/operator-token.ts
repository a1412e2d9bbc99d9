/**
 * `operator-token`: replaces the operator's token while the services run; every process refuses the old one at once. Where
 * the token is in the data folder, the new one takes its place there; where it is in the settings, it is printed once.
 */
import { join } from 'node:path';
import { findAuditLogs, machineOrigin, performAction } from '#platform/audit-log.ts';
import { timestampNow } from '#platform/clock.ts';
import { replaceFile } from '#platform/durable-file.ts';
import { AppError } from '#platform/errors.ts';
import { hashOperatorToken, newOperatorToken, replaceSettingsToken } from '#service/admin/operator-store.ts';
import { migrateService } from '#service/create-service.ts';
import { type BridgeCommandOptions } from '../bridge-command.ts';
import { openInstallation } from '../installation.ts';
import { readCommandConfiguration } from '../local-settings.ts';
import { print } from '../output.ts';

/** A process that dies after the database has the new token, and before the file has it, leaves what a second run corrects. */
export async function runOperatorToken(options: BridgeCommandOptions): Promise<number> {
  const configuration = await readCommandConfiguration(options);
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, { name: 'operator', logLevel: 'error', existing: true });
  opened.defer(() => installation.close());
  const { clock } = installation;
  const { database } = installation.open;
  if (!(await findAuditLogs(database)).includes('service'))
    throw new AppError('invalid', 'This database has no tables of the service that its role may read.');
  await migrateService(database);
  const ofSettings = hashOperatorToken(await installation.adminToken());
  const token = newOperatorToken();
  const by = { database, program: 'service', clock } as const;
  const subject = { what: 'operator.replace-token', object: null };
  await performAction(by, machineOrigin(), subject, () =>
    database.transaction((tx) => replaceSettingsToken(tx, { ofSettings, token, now: timestampNow(clock) })),
  );
  if (configuration.admin_token === undefined) {
    const file = join(installation.dataDir, 'admin-token');
    await replaceFile(file, `${token}\n`, 0o600);
    print(options, { file }, () => `The token in ${file} is new; the old one is refused from now on.`);
  } else
    print(
      options,
      { token },
      () =>
        `The new token, which is shown only now: ${token}\nThe old one is refused. Put the new one into the settings.`,
    );
  return 0;
}
