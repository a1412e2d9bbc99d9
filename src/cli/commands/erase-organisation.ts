/** `erase organisation` (service) and `erase source` (bridge): all of it, for good. Both may be run again and go on. */
import { eraseSource, isKnownSource } from '#bridge/operate/erasure/erase-source.ts';
import { uuid } from '#contract/scalars.ts';
import { findAuditLogs, machineOrigin, performAction, recordAction } from '#platform/audit-log.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { migrateService } from '#service/create-service.ts';
import { eraseOrganisation, listOrganisations } from '#service/erasure/erase-organisation.ts';
import { withBridge } from '../bridge-command.ts';
import { confirm } from '../confirm.ts';
import { openInstallation } from '../installation.ts';
import { readCommandConfiguration } from '../local-settings.ts';
import { createProgress, print, tableOf } from '../output.ts';
import type { ErasePersonOptions } from './person-data.ts';

/** Throws an AppError that lists the organisations when there is none with this id. */
export async function runEraseOrganisation(options: ErasePersonOptions, given: string): Promise<number> {
  const configuration = await readCommandConfiguration(options, { withoutSecrets: true });
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, { name: 'erase', logLevel: 'error', existing: true });
  opened.defer(() => installation.close());
  const { database } = installation.open;
  if (!(await findAuditLogs(database)).includes('service'))
    throw new AppError('invalid', 'This database has no tables of the service that its role may read.');
  await migrateService(database);
  const id = uuid.safeParse(given).data;
  const known = await database.query<{ name: string }>('select name from service.organisations where id = $1', [id]);
  const [organisation] = id === undefined ? [] : known;
  if (id === undefined || !organisation) {
    const all = await listOrganisations(database);
    throw new AppError(
      'invalid',
      all.length === 0
        ? 'There is no organisation.'
        : `There is no organisation with the id "${given}". There are: ${all.map((one) => `${one.id} (${one.name})`).join(', ')}.`,
    );
  }
  const question =
    `Everything of the organisation "${organisation.name}" is deleted for good: its keys, suppliers, events, files and ` +
    'webhooks. Its keys are refused from now on. Go on?';
  if (!(await confirm(question, options))) return 1;
  const storage = await installation.storage();
  const progress = createProgress('deleted rows');
  const subject = { what: 'organisation.erase', object: `organisation ${id}`, details: {} };
  const by = { database, program: 'service', clock: systemClock } as const;
  const removed = await performAction(by, machineOrigin(), subject, () =>
    eraseOrganisation({ database, storage, clock: systemClock }, id, (rows) => progress.tell(rows)),
  );
  progress.end();
  await recordAction(database, 'service', {
    ...machineOrigin(),
    ...subject,
    what: 'organisation.erased',
    details: { removed },
    outcome: 'allowed',
    when: timestampNow(systemClock),
  });
  printRemoved(options, removed);
  return 0;
}

/** Throws an AppError `invalid` for a source that is still configured, and for one that the bridge knows nothing of. */
export async function runEraseSource(options: ErasePersonOptions, source: string): Promise<number> {
  return withBridge(
    options,
    async ({ settings, database, perform }) => {
      if (settings.sources.some(({ name }) => name === source))
        throw new AppError(
          'invalid',
          `The source "${source}" is configured: the bridge would read it again. Take it, its flows and its intakes out of ` +
            'the settings of every process, restart them, and run the command again.',
        );
      if (!(await isKnownSource(database, source)))
        throw new AppError('invalid', `The bridge has nothing of a source "${source}".`);
      const question =
        `Everything that the bridge has of the source "${source}" is deleted for good, also which objects of the ERPs it ` +
        'has made: they stay there, and if the source is ever read again they are made a second time. Go on?';
      if (!(await confirm(question, options))) return 1;
      const progress = createProgress('deleted rows');
      const subject = { what: 'source.erase', object: `source ${source}`, details: {} };
      const removed = await perform(subject, () => eraseSource(database, source, (rows) => progress.tell(rows)));
      progress.end();
      await recordAction(database, 'bridge', {
        ...machineOrigin(),
        ...subject,
        what: 'source.erased',
        details: { removed },
        outcome: 'allowed',
        when: timestampNow(systemClock),
      });
      printRemoved(options, removed);
      return 0;
    },
    { withoutSecrets: true },
  );
}

function printRemoved(options: ErasePersonOptions, removed: Readonly<Record<string, number>>): void {
  const rows = Object.entries(removed).sort(([one], [other]) => (one < other ? -1 : 1));
  print(options, { removed: Object.fromEntries(rows) }, () =>
    tableOf(['table', 'rows'], rows, 'Nothing was left of it.'),
  );
}
