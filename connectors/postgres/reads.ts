/**
 * Reads suppliers or requisitions from a table or view of the customer, by a column that says when a row was changed and
 * by its key.
 *
 * A row gets its stamp before its transaction is committed, so a row with an older stamp can appear after one with a
 * newer stamp was read. So each read begins again some time before the end of the last one:
 *
 *     12:00:00  a read ends; its last row was stamped 11:59:58          mark { 12:00:00, 11:59:58 }
 *     12:00:10  a transaction commits a row that it stamped 11:59:57
 *     12:05:00  a read begins before the mark is `lateness_seconds` old: it repeats what is newer than the mark before,
 *               and so returns the late row
 *     12:10:00  the mark is old enough: nothing stamped up to 11:59:58 can still be open. Reads begin after it
 *
 * Stamps are only compared with stamps, so the clock that makes them may be wrong by any time; a stamp in the future
 * counts as now. Where a stamp has no zone, clocks may show the same hour twice: from a stamp in it, a read goes back by the
 * length of the change. Until a mark is old enough, a read goes back by `lateness_seconds` from the newest stamp, or from a
 * mark where stamps are numbers. Rows of one stamp may be more than a page: the position is a stamp and a key.
 */
import { createHash } from 'node:crypto';
import { escapeIdentifier } from 'pg';
import {
  type CheckResult,
  ConfigError,
  compileMayBeOpen,
  compileRequisitionPlaces,
  compileSupplierPlaces,
  namedPlaces,
  namedRequisitionPlaces,
  parseCheckpoint,
  placesOfFlag,
  type ReadPage,
  type ReadStream,
  type RecordFault,
  type RecordOf,
  type RequisitionPlaces,
  repeatedMs,
  type SupplierPlaces,
  z,
} from 'sourcing-bridge/connector';
import type { Connections, Tx } from './connections.ts';
import type { RelationSettings } from './settings.ts';
import { connectorErrorOf } from './sql-errors.ts';

/** A cell as PostgreSQL writes it. */
type Row = Readonly<Record<string, string | null>>;

/** Up to here (`to`, a stamp) everything had been read at this time of the database's clock. */
const markForm = z.object({ atMs: z.number(), to: z.string() });

const walkForm = z.object({
  beganMs: z.number(),
  /** Rows without a stamp come first, and only in a read of everything. */
  phase: z.enum(['unstamped', 'stamped']),
  /** The last row of the last page. */
  changed: z.string().optional(),
  key: z.string().optional(),
});
type Walk = z.output<typeof walkForm>;

const checkpointForm = z.object({
  /** Which table and columns it belongs to. */
  of: z.string(),
  /** Rows with later stamps are read. */
  floor: z.string().optional(),
  marks: z.array(markForm).max(100),
  /** A read that has not come to its end. */
  walk: walkForm.optional(),
});
type Checkpoint = z.output<typeof checkpointForm>;

const dayMs = 86_400_000;
/** Marks are at least this part of the lateness apart, so that there are few of them. */
const markShare = 8;
const clockTypes = /^(?:timestamp\b|date$)/;
const countTypes = /^(?:smallint|integer|bigint|numeric)/;
const [stampAlias, keyAlias] = [' stamp', ' key'];

/** What a stream reads of its table or view. */
export interface TableRead<Stream extends ReadStream> {
  readonly settings: RelationSettings;
  /** The setting that it stands in, for messages. */
  readonly setting: string;
  /** The columns of a record. */
  readonly columns: readonly string[];
  /** Whether the record has all other columns, too. */
  readonly hasOthers: boolean;
  readonly readRow: (row: Row, where: string) => { record: RecordOf<Stream> } | { fault: RecordFault };
}

export function supplierRead(settings: RelationSettings & { record: SupplierPlaces }): TableRead<'supplier'> {
  const { record, unique, changed } = settings;
  const columns = namedPlaces(record);
  const named = new Set([...columns, unique, changed, stampAlias, keyAlias]);
  const readRow = compileSupplierPlaces<Row>(record, columnAt, (row) =>
    Object.fromEntries(Object.entries(row).filter(([column]) => !named.has(column))),
  );
  return { settings, setting: 'settings.read.supplier', columns, hasOthers: record.fields === undefined, readRow };
}

export function requisitionRead(settings: RelationSettings & { record: RequisitionPlaces }): TableRead<'requisition'> {
  const { record } = settings;
  const readRow = compileRequisitionPlaces<Row>(record, columnAt);
  const columns = namedRequisitionPlaces(record);
  return { settings, setting: 'settings.read.requisition', columns, hasOthers: false, readRow };
}

function columnAt(column: string): (row: Row) => unknown {
  return (row) => row[column];
}

/** Reads a table or view. Its pages have at most `page` rows; a read with nothing new is one query of the table. */
export function createReader<Stream extends ReadStream>(connections: Connections, table: TableRead<Stream>) {
  const { settings, readRow } = table;
  const { page: rowsMax } = settings;
  const of = createHash('sha256')
    .update(JSON.stringify([settings.from, settings.unique, settings.changed]))
    .digest('hex');
  let known: Relation | undefined;

  async function* read(checkpoint: string | undefined, signal: AbortSignal): AsyncGenerator<ReadPage<Stream>> {
    let at = checkpointOf(checkpoint, of);
    for (;;) {
      const { rows, reached } = await connections
        .read({ signal, readOnly: true }, async (tx) => {
          known ??= await readRelation(tx, table);
          return readPage(tx, known, at);
        })
        .catch((error: unknown) => {
          throw connectorErrorOf(error, connections.targetName);
        });
      at = reached;
      if (rows.length > 0 || !at.walk) yield pageOf(rows, at);
      if (!at.walk) return;
    }
  }

  async function readPage(tx: Tx, relation: Relation, at: Checkpoint): Promise<{ rows: Row[]; reached: Checkpoint }> {
    const walk: Walk = at.walk ?? {
      beganMs: (await readClock(tx, relation, settings)).ms,
      phase: at.floor === undefined ? 'unstamped' : 'stamped',
    };
    const rows = await queryRows(tx, relation, settings, walk, at.floor);
    const last = rows.at(-1);
    const position = last ? { changed: last[stampAlias] ?? undefined, key: last[keyAlias] ?? undefined } : {};
    if (rows.length === rowsMax) return { rows, reached: { ...at, walk: { ...walk, ...position } } };
    if (walk.phase === 'unstamped')
      return { rows, reached: { ...at, walk: { beganMs: walk.beganMs, phase: 'stamped' } } };
    const { beganMs, changed } = { ...walk, ...position };
    return { rows, reached: await ended(tx, relation, at, beganMs, changed) };
  }

  /** The checkpoint after a read that began at `beganMs` and whose last row had this stamp. */
  async function ended(
    tx: Tx,
    relation: Relation,
    at: Checkpoint,
    beganMs: number,
    changed: string | undefined,
  ): Promise<Checkpoint> {
    const { ms, upTo, floor } = await readClock(tx, relation, settings, {
      changed,
      floor: at.marks.findLast((mark) => mark.atMs <= beganMs - latenessMsOf(relation, settings))?.to ?? at.floor,
    });
    const open = at.marks.filter(({ atMs }) => atMs > beganMs - latenessMsOf(relation, settings));
    const isNew = upTo !== undefined && upTo !== open.at(-1)?.to && upTo !== floor;
    const isApart = open.length === 0 || ms - (open.at(-1)?.atMs ?? 0) >= latenessMsOf(relation, settings) / markShare;
    return { of, floor, marks: isNew && isApart ? [...open, { atMs: ms, to: upTo }] : open };
  }

  function pageOf(rows: readonly Row[], at: Checkpoint): ReadPage<Stream> {
    const read = rows.map((row) => readRow(row, `${settings.from}, ${settings.unique} ${row[keyAlias] ?? ''}`));
    return {
      records: read.flatMap((each) => ('record' in each ? [each.record] : [])),
      faults: read.flatMap((each) => ('fault' in each ? [each.fault] : [])),
      checkpoint: JSON.stringify(at),
    };
  }

  return read;
}

/** A day's rows have one stamp until its end. */
function latenessMsOf({ changedType }: Relation, { lateness_seconds }: RelationSettings): number {
  return lateness_seconds * 1_000 + (changedType === 'date' ? dayMs : 0);
}

function checkpointOf(stored: string | undefined, of: string): Checkpoint {
  const everything = { of, marks: [] };
  if (stored === undefined) return everything;
  const read = parseCheckpoint(stored, checkpointForm, 'postgres');
  // It says nothing of another table or column.
  return read.of === of ? read : everything;
}

/** `schema.table` or `table`, as SQL. */
export function relationOf({ from }: RelationSettings): string {
  return from.split('.').map(escapeIdentifier).join('.');
}

interface Relation {
  readonly columns: readonly string[];
  readonly changedType: string;
  readonly keyType: string;
}

/** Reads the types of the columns. Throws ConfigError where the table or a column does not exist, or cannot be read by. */
async function readRelation(tx: Tx, table: TableRead<ReadStream>): Promise<Relation> {
  const { settings, setting } = table;
  const rows = await tx.query<{ name: string; type: string }>(
    `select attname as name, format_type(atttypid, atttypmod) as type from pg_attribute
     where attrelid = to_regclass($1) and attnum > 0 and not attisdropped order by attnum`,
    [relationOf(settings)],
  );
  const { from, unique, changed } = settings;
  if (rows.length === 0) throw new ConfigError(`There is no table or view ${from} (${setting}.from).`);
  const types = new Map(rows.map(({ name, type }) => [name, type]));
  for (const column of [unique, changed, ...table.columns])
    if (!types.has(column)) throw new ConfigError(`${from} has no column "${column}" (${setting}).`);
  const changedType = types.get(changed) ?? '';
  if (!clockTypes.test(changedType) && !countTypes.test(changedType))
    throw new ConfigError(
      `The column ${changed} of ${from} has the type ${changedType}: it must be a timestamp, a date or a whole number that grows with each change.`,
    );
  const used = table.hasOthers ? [...types.keys()] : [...new Set(table.columns)];
  return { columns: used, changedType, keyType: types.get(unique) ?? '' };
}

async function queryRows(
  tx: Tx,
  relation: Relation,
  settings: RelationSettings,
  { phase, changed: lastStamp, key: lastKey }: Walk,
  floor: string | undefined,
): Promise<Row[]> {
  const { page: rowsMax } = settings;
  const [changed, key] = [escapeIdentifier(settings.changed), escapeIdentifier(settings.unique)];
  const params: unknown[] = [rowsMax];
  const param = (value: string, type: string) => `$${params.push(value)}::text::${type}`;
  const stampOf = (value: string) => param(value, relation.changedType);
  const lookBack = (stamp: string) => {
    const backMs = relation.changedType.endsWith('without time zone') ? repeatedMs(stamp, settings.time_zone) : 0;
    return backMs === 0 ? '' : ` - interval '${backMs} milliseconds'`;
  };
  const isAfter = () => {
    if (phase === 'unstamped')
      return `${changed} is null${lastKey === undefined ? '' : ` and ${key} > ${param(lastKey, relation.keyType)}`}`;
    if (lastStamp !== undefined && lastKey !== undefined)
      return `(${changed}, ${key}) > (${stampOf(lastStamp)}, ${param(lastKey, relation.keyType)})`;
    return floor === undefined ? `${changed} is not null` : `${changed} > ${stampOf(floor)}${lookBack(floor)}`;
  };
  const columns = relation.columns.map((name) => `${escapeIdentifier(name)}::text as ${escapeIdentifier(name)}`);
  return tx.query<Row>(
    `select ${columns.join(', ')}, ${changed}::text as ${escapeIdentifier(stampAlias)},
       ${key}::text as ${escapeIdentifier(keyAlias)}
     from ${relationOf(settings)} where ${isAfter()} order by ${changed}, ${key} limit $1`,
    params,
  );
}

/**
 * The database's clock; of a read that has ended, also the stamp up to which it has read, at most now (`upTo`), and the
 * stamp behind which the next one begins: the floor, or the lateness before `upTo` where that is later.
 */
async function readClock(
  tx: Tx,
  relation: Relation,
  settings: RelationSettings,
  ended: { changed?: string | undefined; floor?: string | undefined } = {},
): Promise<{ ms: number; upTo: string | undefined; floor: string | undefined }> {
  const { changedType: type } = relation;
  const now =
    type.startsWith('timestamp') && type.endsWith('with time zone')
      ? 'clock_timestamp()'
      : '(clock_timestamp() at time zone $3)';
  const upTo = clockTypes.test(type) ? `least($1::text::${type}, ${now}::${type})` : `$1::text::${type}`;
  const back = clockTypes.test(type) ? `(${upTo} - make_interval(secs => $4))::${type}` : `null::${type}`;
  const [row] = await tx.query<{ ms: number; up_to: string | null; floor: string | null }>(
    `select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms, (${upTo})::text as up_to,
       case when $1::text is null then $2::text else greatest($2::text::${type}, ${back})::text end as floor,
       $3::text, $4::float8`,
    [ended.changed ?? null, ended.floor ?? null, settings.time_zone, latenessMsOf(relation, settings) / 1_000],
  );
  return { ms: row?.ms ?? 0, upTo: row?.up_to ?? undefined, floor: row?.floor ?? undefined };
}

/** Checks the table, its columns and what would make a read miss rows. Throws as the database does. */
export async function checkRead(tx: Tx, table: TableRead<ReadStream>): Promise<CheckResult[]> {
  const { settings } = table;
  const name = `read ${settings.from}`;
  try {
    await readRelation(tx, table);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [{ name, ok: false, message: error.message }];
  }
  const [changed, key] = [escapeIdentifier(settings.changed), escapeIdentifier(settings.unique)];
  const [found] = await tx.query<{ keyless: boolean; unstamped: boolean; twice: string | null }>(
    `select exists (select from ${relationOf(settings)} where ${key} is null) as keyless,
       exists (select from ${relationOf(settings)} where ${changed} is null) as unstamped,
       (select ${key}::text from ${relationOf(settings)} group by ${key} having count(*) > 1 limit 1) as twice`,
  );
  const fault = found?.keyless
    ? `has rows without ${settings.unique}: they are never read`
    : found?.twice != null
      ? `has several rows with ${settings.unique} ${found.twice}: name a column that is different in each row`
      : undefined;
  if (fault !== undefined) return [{ name, ok: false, message: `${settings.from} ${fault}.` }];
  const unstamped = found?.unstamped ? ` Rows without ${settings.changed} are read only when everything is read.` : '';
  return [{ name, ok: true, message: `${settings.from} can be read.${unstamped}` }];
}

/**
 * The numbers of all open requisitions, in pages by their key: a row that is changed meanwhile moves no other one. A row
 * whose `open` cannot be read is listed, as it has not disappeared.
 */
export async function* openNumbers(
  connections: Connections,
  settings: RelationSettings & { record: RequisitionPlaces },
  signal: AbortSignal,
): AsyncGenerator<readonly string[]> {
  const table = requisitionRead(settings);
  const { record, page: rowsMax } = settings;
  const mayBeOpen = compileMayBeOpen<Row>(record, columnAt);
  const key = escapeIdentifier(settings.unique);
  const columns = [record.reference_id, ...placesOfFlag(record.open)].map(
    (name) => `${escapeIdentifier(name)}::text as ${escapeIdentifier(name)}`,
  );
  let relation: Relation | undefined;
  let last: string | undefined;
  for (;;) {
    const rows = await connections
      .read({ signal, readOnly: true }, async (tx) => {
        relation ??= await readRelation(tx, table);
        const after = last === undefined ? `${key} is not null` : `${key} > $2::text::${relation.keyType}`;
        return tx.query<Row>(
          `select ${columns.join(', ')}, ${key}::text as ${escapeIdentifier(keyAlias)}
           from ${relationOf(settings)} where ${after} order by ${key} limit $1`,
          last === undefined ? [rowsMax] : [rowsMax, last],
        );
      })
      .catch((error: unknown) => {
        throw connectorErrorOf(error, connections.targetName);
      });
    yield rows.filter((row) => mayBeOpen(row)).map((row) => (row[record.reference_id] ?? '').trim());
    if (rows.length < rowsMax) return;
    last = rows.at(-1)?.[keyAlias] ?? undefined;
  }
}
