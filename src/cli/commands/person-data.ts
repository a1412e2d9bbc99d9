/**
 * `export person` and `erase person`: what is held of one person, known by an e-mail address, and its end. They stand in
 * the audit log, by a salted hash: whoever has the address can find the entry, and nobody can read the address from it.
 */
import { randomBytes, scryptSync } from 'node:crypto';
import { once } from 'node:events';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { erasePersonFromBridge, type NamedDelivery } from '#bridge/operate/erasure/erase-person.ts';
import {
  type ActionSubject,
  type AuditedProgram,
  findAuditLogs,
  machineOrigin,
  performAction,
  readActions,
  recordAction,
} from '#platform/audit-log.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { rewriteTables } from '#platform/database/rewrite-tables.ts';
import { AppError } from '#platform/errors.ts';
import { createPerson, type Person } from '#platform/person-data/person.ts';
import { findRowsOf, findTextTables } from '#platform/person-data/stored-text.ts';
import { erasePerson } from '#service/erasure/erase-person.ts';
import type { BridgeCommandOptions } from '../bridge-command.ts';
import { confirm } from '../confirm.ts';
import { type Installation, openInstallation } from '../installation.ts';
import { readCommandConfiguration } from '../local-settings.ts';
import { createProgress, print, tableOf } from '../output.ts';

export interface ErasePersonOptions extends BridgeCommandOptions {
  yes?: boolean;
}

const eraseThereFirst =
  'The bridge reads again what its sources and ERPs still show of a person: erase the person there first.';

/**
 * Prints a row as one JSON object a line, of every table of the service and the bridge that this role may read. Says on
 * standard error that there is none.
 */
export async function runExportPerson(options: BridgeCommandOptions, address: string): Promise<number> {
  await using opened = new AsyncDisposableStack();
  const installation = await open(options);
  opened.defer(() => installation.close());
  const { database } = installation.open;
  const person = personOf(installation, address);
  const programs = await programsOf(database);
  let rows = 0;
  let work = async () => {
    for (const program of programs)
      for (const table of await findTextTables(database, program))
        for await (const { key, found } of findRowsOf(database, table, person)) {
          rows += 1;
          const line = `${JSON.stringify({ table: table.table, key, found })}\n`;
          if (!process.stdout.write(line)) await once(process.stdout, 'drain');
        }
  };
  for (const program of programs) {
    const inner = work;
    const by = { database, program, clock: systemClock };
    work = () => performAction(by, machineOrigin(), subjectOfPerson('person.export', person), inner);
  }
  await work();
  if (rows === 0) console.error(`No row names ${person.address}. Tables searched: ${programs.join(' and ')}.`);
  return 0;
}

/** Exit code 1 when the answer was no. May be run again after it was interrupted: it goes on. */
export async function runErasePerson(options: ErasePersonOptions, address: string): Promise<number> {
  await using opened = new AsyncDisposableStack();
  const installation = await open(options);
  opened.defer(() => installation.close());
  const { database } = installation.open;
  const person = personOf(installation, address);
  const programs = await programsOf(database);
  if (programs.includes('bridge')) await migrateBridge(database);
  const all = `All data of ${person.address} in this database (${programs.join(', ')})`;
  const question = `${all} is erased for good. ${eraseThereFirst} Go on?`;
  if (!(await confirm(question, options))) return 1;
  const interrupted = await interruptedTables(database, programs, person);
  const removed: Record<string, number> = {};
  let deliveries: readonly NamedDelivery[] = [];
  // The service first: the bridge reads from it that the person is gone.
  if (programs.includes('service'))
    await erase(database, 'service', person, async () => {
      const progress = createProgress('tables of the service searched');
      const erased = await erasePerson({ database, clock: systemClock }, person, (tables, of, rows) =>
        progress.tell(tables, of, `${rows} rows erased`),
      );
      progress.end();
      return Object.assign(removed, Object.fromEntries(erased));
    });
  if (programs.includes('bridge'))
    await erase(database, 'bridge', person, async () => {
      const progress = createProgress('tables of the bridge searched');
      const erased = await erasePersonFromBridge(database, person, (tables, of, rows) =>
        progress.tell(tables, of, `${rows} rows erased`),
      );
      progress.end();
      deliveries = erased.deliveries;
      Object.assign(removed, erased.removed);
      return erased.removed;
    });
  const rows = Object.entries(removed).sort(([one], [other]) => (one < other ? -1 : 1));
  const { left } = await rewriteTables(database, [...interrupted, ...rows.map(([table]) => table)]);
  print(options, { removed: Object.fromEntries(rows), deliveries, toRewrite: left }, () =>
    [
      tableOf(['table', 'rows'], rows, 'Nothing is held of this person.'),
      ...(programs.includes('bridge') ? [`\n${eraseThereFirst}`] : []),
      ...(left.length === 0
        ? []
        : [
            '\nThe files of the database still have old versions of rows, which no query shows. As their owner, at a quiet ' +
              `hour: vacuum (full, analyze) ${left.join(', ')};`,
          ]),
      ...(deliveries.length === 0
        ? []
        : [
            '\nThese documents named the person when they were delivered. Look whether the ERPs still do, and erase it there.',
            tableOf(
              ['flow', 'document', 'key', 'in the ERP'],
              deliveries.map(({ flow, kind, key, reference }) => [flow, kind, key, reference ?? '']),
            ),
          ]),
    ].join('\n'),
  );
  return 0;
}

/** The tables that an erasure may have changed which has not come to its end. */
async function interruptedTables(database: Database, programs: readonly AuditedProgram[], person: Person) {
  const tables: string[] = [];
  for (const program of programs) {
    const object = subjectOfPerson('person', person).object ?? undefined;
    const entries = await readActions(database, program, { what: 'person', object, limit: 100 });
    if (entries.find(({ what }) => what !== 'person.export')?.what !== 'person.erase') continue;
    tables.push(...(await findTextTables(database, program)).map(({ table }) => table));
  }
  return tables;
}

/** Writes into the program's audit log that it began, and what it has removed. */
async function erase(
  database: Database,
  program: AuditedProgram,
  person: Person,
  work: () => Promise<Readonly<Record<string, number>>>,
): Promise<void> {
  const subject = subjectOfPerson('person.erase', person);
  const removed = await performAction({ database, program, clock: systemClock }, machineOrigin(), subject, work);
  await recordAction(database, program, {
    ...machineOrigin(),
    what: 'person.erased',
    object: subject.object,
    details: { ...subject.details, removed },
    outcome: 'allowed',
    when: timestampNow(systemClock),
  });
}

async function open(options: BridgeCommandOptions): Promise<Installation> {
  const configuration = await readCommandConfiguration(options, { withoutSecrets: true });
  return openInstallation(configuration, { name: 'person-data', logLevel: 'error', existing: true });
}

function personOf(installation: Installation, address: string): Person {
  return createPerson(address, markOf(installation, address));
}

/** A MAC under the master key: the same person has the same mark, also when an erasure is run again. */
function markOf({ secrets }: Installation, address: string): string {
  return secrets.mac(Buffer.from(address.trim().toLowerCase()), 'erased person').toString('hex').slice(0, 12);
}

async function programsOf(database: Database) {
  const programs = await findAuditLogs(database);
  if (programs.length > 0) return programs;
  throw new AppError('invalid', 'This database has no tables that its role may read: start the program first.');
}

/** The salt stands beside the hash; it makes it slow to guess many addresses. */
function subjectOfPerson(what: string, person: Person): ActionSubject {
  const salt = randomBytes(16);
  const hash = scryptSync(person.address, salt, 32).toString('hex');
  return { what, object: `person ${person.placeholder}`, details: { salt: salt.toString('hex'), scrypt: hash } };
}
