/**
 * The second stage of an intake's work: it links each record to its supplier at the source, and compares what the ERP
 * wants with what the source holds. It sends nothing, so it also runs while the intake is paused: `plan` and `status`
 * show what would be sent.
 */
import { recordSchemas, type SupplierRecord } from '#connector/records.ts';
import type { SupplierChange } from '#contract/supplier.ts';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { compareSupplier } from './compare-supplier.ts';
import { type Echo, readEchoes, readHasFlow } from './flow-echoes.ts';
import type { IntakeDeps, IntakeWork } from './intake-deps.ts';
import { readIntake, storeComparedList } from './intake-store.ts';
import { countRivals, decideMatch, readCandidates } from './match-suppliers.ts';
import {
  type ComparisonResult,
  type DueRecord,
  heldBySource,
  linkRecords,
  markChangedAtSource,
  readOwners,
  readOwnKeys,
  readToCompare,
  storeCompared,
} from './record-store.ts';
import { faultOfChange } from './wanted-supplier.ts';
import { writeAgain } from './write-again.ts';

type Link = Parameters<typeof linkRecords>[2][number];

const batchRecords = 500;
/** So often the source may take a version and then not show it. */
const takenMost = 3;
/** A call of a flow whose outcome is not known yet may have changed the ERP: so long it is waited for. */
const intentWaitMs = 5_000;

/**
 * Compares everything that is to be compared. Does nothing before the ERP was read to its end once, and the supplier
 * list of the source too: a match could be missed. Rejects with LeaseLost.
 */
export async function compareStage(work: IntakeWork): Promise<void> {
  const { intake, lease, clock, signal } = work;
  for (;;) {
    signal.throwIfAborted();
    const compared = await lease.transaction(async (tx) => {
      const state = await readIntake(tx, intake);
      if (!state?.lastRead || !state.listPulled) return 0;
      const now = timestampNow(clock);
      if (state.listPulled !== state.comparedList) {
        const { name, source } = intake;
        await markChangedAtSource(tx, { intake: name, source, since: state.comparedList }, now);
        await storeComparedList(tx, name, state.listPulled);
      }
      const rows = await readToCompare(tx, intake.name, now, batchRecords);
      if (rows.length === 0) return 0;
      await storeCompared(tx, intake.name, await linkNew(tx, work, rows), now);
      const linked = rows.every(isLinked) ? rows : await readToCompare(tx, intake.name, now, batchRecords);
      await storeComparison(tx, work, await compareRecords(tx, work, linked.filter(isLinked)));
      return rows.length;
    });
    if (compared === 0) return;
  }
}

const isLinked = ({ key }: DueRecord) => key !== null;

/** Links records that have no supplier yet. Returns those that are dead letters: ambiguous ones, and another intake's. */
async function linkNew(tx: Sql, { intake }: IntakeDeps, rows: readonly DueRecord[]): Promise<ComparisonResult[]> {
  const unlinked = rows.filter((row) => !isLinked(row));
  if (unlinked.length === 0) return [];
  const dead: ComparisonResult[] = [];
  const links: Link[] = [];
  const ownKey = (row: DueRecord) => intake.prefix + row.erpKey;
  const owners = await readOwners(tx, intake.source, unlinked.map(ownKey));
  const listed = await readListed(tx, intake.source, unlinked.map(ownKey));
  const rest: DueRecord[] = [];
  for (const row of unlinked) {
    const key = ownKey(row);
    const owner = owners.get(key);
    if (owner)
      dead.push({
        is: 'dead',
        erpKey: row.erpKey,
        type: 'overlap',
        why: `the supplier ${key} belongs to ${owner.erpKey} of the intake "${owner.intake}"; give one of them a prefix or a filter`,
      });
    else if (listed.has(key)) links.push({ erpKey: row.erpKey, key, linked: 'id' });
    else rest.push(row);
  }
  for (const link of await matchRest(tx, intake, rest, { dead, linked: links.map(({ key }) => key) })) links.push(link);
  await linkRecords(tx, intake.name, links);
  return dead;
}

async function matchRest(
  tx: Sql,
  { name, source, match, prefix }: IntakeDeps['intake'],
  rest: readonly DueRecord[],
  { dead, linked }: { dead: ComparisonResult[]; linked: readonly string[] },
): Promise<Link[]> {
  const asNew = ({ erpKey }: DueRecord): Link => ({ erpKey, key: prefix + erpKey, linked: 'new' });
  if (match.length === 0 || rest.length === 0) return rest.map(asNew);
  const all = [...new Set(rest.flatMap(({ matchValues }) => matchValues))];
  const candidates = await readCandidates(tx, source, match, new Set(all));
  const rivals = await countRivals(tx, name, all);
  const keys = [...new Set([...candidates.values()].flat())];
  const owners = await readOwners(tx, source, keys);
  // A supplier with the number of another record is that one, also if it has not been compared yet.
  const taken = new Set([...owners.keys(), ...linked, ...(await readOwnKeys(tx, { intake: name, prefix }, keys))]);
  const matches = rest.map((row) => ({
    row,
    found: decideMatch(row.matchValues, candidates, rivals, (key) => taken.has(key)),
  }));
  const isOnly = (key: string) => matches.filter(({ found }) => found.is === 'one' && found.key === key).length === 1;
  return matches.flatMap(({ row, found }): Link[] => {
    if (found.is === 'none') return [asNew(row)];
    if (found.is === 'one' && isOnly(found.key)) return [{ erpKey: row.erpKey, key: found.key, linked: 'match' }];
    const what = found.is === 'one' ? `several suppliers of the ERP fit ${found.key} of the service` : found.why;
    const why = `${what}; say which it is: bridge link ${name} ${row.erpKey} <external id>, or --new`;
    dead.push({ is: 'dead', erpKey: row.erpKey, type: 'ambiguous', why });
    return [];
  });
}

/** Returns which of these suppliers the source's list has. */
async function readListed(tx: Sql, source: string, keys: readonly string[]): Promise<Set<string>> {
  const rows = await tx.query<{ id: string }>(
    `select id from bridge.resources where source = $1 and kind = 'supplier-master' and id = any($2)`,
    [source, keys],
  );
  return new Set(rows.map(({ id }) => id));
}

/** A record with what its comparison came to, and the change where there is one. */
export interface ComparedRecord {
  readonly row: DueRecord;
  readonly compared: ComparisonResult;
  readonly change: ReturnType<typeof compareSupplier>;
  readonly wanted: Parameters<typeof compareSupplier>[0]['wanted'] | undefined;
  /** What the ERP has otherwise although nothing is sent, as a flow is expected to take the service's value there. */
  readonly left?: SupplierChange | undefined;
}

/** Stores what comparisons came to, and makes flows write again what they would otherwise leave different. */
export async function storeComparison(tx: Sql, work: IntakeWork, records: readonly ComparedRecord[]): Promise<void> {
  const compared = records.map((record) => record.compared);
  await storeCompared(tx, work.intake.name, compared, timestampNow(work.clock));
  const left = records.flatMap(({ row: { erpKey, key }, left: differs }) =>
    differs && key !== null ? [{ erpKey, key, differs }] : [],
  );
  await writeAgain(tx, work, left);
}

/** Compares linked records with what the source holds. Changes nothing. */
export async function compareRecords(
  sql: Sql,
  deps: Pick<IntakeDeps, 'intake' | 'wantedOf' | 'clock'>,
  rows: readonly DueRecord[],
): Promise<ComparedRecord[]> {
  const { intake, clock } = deps;
  const setsBack = !(await readHasFlow(sql, intake.source));
  const keys = rows.flatMap(({ key }) => key ?? []);
  const echoes = setsBack ? new Map<string, Echo>() : await readEchoes(sql, intake.source, keys);
  const state = setsBack ? undefined : await readIntake(sql, intake);
  const nowMs = clock.nowMs();
  const reads = { lastMs: msOf(state?.lastRead), nextMs: msOf(state?.nextRead) };
  return rows.map((row) => compareOne(deps, row, { setsBack, echo: echoes.get(row.key ?? ''), nowMs, reads }));
}

const msOf = (time: Timestamp | null | undefined) => (time ? msFromTimestamp(time) : 0);

interface Circumstances {
  readonly setsBack: boolean;
  readonly echo: Echo | undefined;
  readonly nowMs: number;
  /** When the ERP was last read to its end, and when it is read next. */
  readonly reads: { readonly lastMs: number; readonly nextMs: number };
}

function compareOne(
  { intake, wantedOf }: Pick<IntakeDeps, 'intake' | 'wantedOf'>,
  row: DueRecord,
  { setsBack, echo, nowMs, reads }: Circumstances,
): ComparedRecord {
  const { erpKey, key, masterHash } = row;
  const dead = (type: string, why: string): ComparedRecord => ({
    row,
    compared: { is: 'dead', erpKey, type, why },
    change: undefined,
    wanted: undefined,
  });
  const record = recordSchemas.supplier.safeParse(JSON.parse(row.body));
  if (!record.success) return dead('data', "The ERP's record cannot be read; correct it there.");
  const wanted = wantedOf(record.data satisfies SupplierRecord);
  const confirmed = row.heldAt === null || (row.observed !== null && row.observed > row.heldAt);
  const same = (base: ComparedRecord['wanted']): ComparedRecord => ({
    row,
    compared: { is: 'same', erpKey, base, confirmed, masterHash },
    change: undefined,
    wanted: base,
  });
  if (wanted.is === 'left-out' || key === null) return same(undefined);
  if (wanted.is === 'refused') return dead('data', wanted.why);
  const later = (dueMs: number): ComparedRecord => ({
    row,
    compared: { is: 'later', erpKey, due: timestampFromMs(Math.max(dueMs, nowMs + intentWaitMs)) },
    change: undefined,
    wanted: wanted.state,
  });
  if (echo?.isOpen && nowMs - echo.openSinceMs < 3_600_000) return later(nowMs);
  // The flow has written into the ERP since this version was read: the ERP may have another one by now.
  if (echo && echo.deliveredMs >= msOf(row.seen) && echo.deliveredMs >= reads.lastMs) return later(reads.nextMs);
  const held = heldBySource(row);
  const comparison = {
    key,
    wanted: wanted.state,
    held,
    base: row.base === null ? undefined : (JSON.parse(row.base) as typeof wanted.state),
    // What was delivered before the version before this one is nothing that this version can have come from.
    echo: echo && echo.deliveredMs >= msOf(row.seenBefore) ? echo.state : undefined,
    setsBack,
    rules: intake,
  };
  const change = compareSupplier(comparison);
  if (!change) {
    // Only the list shows what a user of the service has done.
    const left = echo && confirmed ? compareSupplier({ ...comparison, echo: undefined, setsBack: true }) : undefined;
    return { ...same(wanted.state), left };
  }
  const fault = faultOfChange(change);
  if (fault !== undefined) return dead('data', fault);
  if (row.taken >= takenMost)
    return dead(
      'not-kept',
      `the service took this ${row.taken} times and shows something else; is it changed there by another system?`,
    );
  const action = held === undefined ? 'create' : change.archived === true ? 'archive' : 'update';
  return { row, compared: { is: 'differs', erpKey, action, masterHash }, change, wanted: wanted.state };
}
