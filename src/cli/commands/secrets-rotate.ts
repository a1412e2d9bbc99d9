/**
 * `secrets rotate`: seals every secret in the database under the master key of now. It may be interrupted at any point
 * and run again; until it is done, both keys are needed, and every program that has both goes on working.
 *
 * - The key is in the settings: the operator has put a new one into `master_key` and the old one into `previous_keys`,
 *   and has restarted the programs with both.
 * - The key is in the data folder: this command makes the new one. A running program would not know it, so none may run.
 */
import { bridgeSealedColumns } from '#bridge/sealed-bridge-columns.ts';
import { findAuditLogs, machineOrigin, performAction } from '#platform/audit-log.ts';
import { beginKeyRotation, loadMasterKey, loadPreviousKeys } from '#platform/data-dir-secret.ts';
import { AppError } from '#platform/errors.ts';
import { checkSealedColumns, countOldSeals, rotateSealedColumns } from '#platform/sealed-columns.ts';
import { createSecretBox, type SecretBox } from '#platform/secrets.ts';
import { serviceSealedColumns } from '#service/webhooks/sealed-webhook-columns.ts';
import type { BridgeCommandOptions } from '../bridge-command.ts';
import { type Installation, openInstallation } from '../installation.ts';
import { readCommandConfiguration } from '../local-settings.ts';
import { createProgress, print } from '../output.ts';
import { runningProgram } from '../running-program.ts';

const rotation = { what: 'secrets.rotate', object: null };
const columns = [...serviceSealedColumns, ...bridgeSealedColumns];

/** Throws an AppError that says what to do when a key is missing, or a program runs that would not know the new one. */
export async function runSecretsRotate(options: BridgeCommandOptions): Promise<number> {
  const configuration = await readCommandConfiguration(options);
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, { name: 'secrets', logLevel: 'error', existing: true });
  opened.defer(() => installation.close());
  const isKept = configuration.master_key === undefined;
  const secrets = isKept ? await makeNewKey(installation) : installation.secrets;
  const progress = createProgress('secrets');
  const { database } = installation.open;
  const rotate = () => rotateSealedColumns(database, secrets, columns, (done) => progress.tell(done));
  // The secrets of both programs are sealed by one key: each of their logs says so.
  const recorded = (await findAuditLogs(database)).reduce<() => Promise<number>>(
    (work, program) => () =>
      performAction({ database, program, clock: installation.clock }, machineOrigin(), rotation, work),
    rotate,
  );
  const count = await recorded();
  progress.end();
  const rest = isKept
    ? `Start the programs again; then ${installation.dataDir}/master-key.previous can be deleted.`
    : 'Once no program runs with the previous key alone, previous_keys can be removed.';
  print(options, { sealed: count }, () => `${count} secrets were sealed anew under the master key. ${rest}`);
  return 0;
}

/** Makes the new key of the data folder, unless an interrupted call has made it already. */
async function makeNewKey({ open: { database }, secrets, dataDir, configuration }: Installation): Promise<SecretBox> {
  await checkSealedColumns(database, secrets, columns);
  const program = await runningProgram(database);
  if (program !== undefined)
    throw new AppError(
      'conflict',
      `A program of this installation is running (${program}), which would not know the new key: stop it first.`,
    );
  await beginKeyRotation(dataDir, { resume: (await countOldSeals(database, secrets, columns)) > 0 });
  return createSecretBox(
    await loadMasterKey({ fromEnvironment: undefined, directory: dataDir }),
    await loadPreviousKeys({ configured: configuration.previous_keys, directory: dataDir }),
  );
}
