/**
 * Finds requisitions that were deleted in the ERP without a trace, by its list of all that are open. One that the list
 * has no more becomes a version that is not open: then all goes on as if the ERP had said so.
 *
 *     12:00  the list has PR-1, PR-2 and PR-3
 *     12:05  PR-2 is missing: it may have been moved between two pages while they were read
 *     12:10  PR-2 is missing again: it counts as withdrawn
 *     13:00  PR-2 is there again: it is open
 *
 * Many at once are rather a filter or a right that has changed: then the intake pauses until a person agrees.
 */
import { guardHours } from '#bridge/ledger/flows/agreements.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import type { RequisitionRecord } from '#connector/records.ts';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { pauseIntakeFor } from '../intake-store.ts';
import { storePage } from '../record-store.ts';

interface Listed {
  /** The numbers of all requisitions that are open in the ERP. */
  readonly open: ReadonlySet<string>;
  readonly now: Timestamp;
}

/** Compares the list with what was read before it. Call it in the transaction that ends the read. */
export async function compareWithOpen(tx: Sql, intake: IntakeSettings, { open, now }: Listed): Promise<void> {
  const rows = await tx.query<{ erpKey: string; open: boolean; missingSince: Timestamp | null }>(
    `select erp_key as "erpKey", coalesce(open, false) as open, missing_since as "missingSince"
     from bridge.intake_records where intake = $1 and (open or missing_since is not null) order by erp_key`,
    [intake.name],
  );
  const found = rows.filter(({ erpKey, missingSince }) => missingSince !== null && open.has(erpKey));
  await storeMissingSince(tx, intake.name, keysOf(found), null);
  await storeOpen(tx, intake, keysOf(found.filter((row) => !row.open)), { open: true, now });
  const missing = rows.filter((row) => row.open && !open.has(row.erpKey));
  const [first, again] = [
    missing.filter(({ missingSince }) => missingSince === null),
    missing.filter(({ missingSince }) => missingSince !== null),
  ];
  await storeMissingSince(tx, intake.name, keysOf(first), now);
  if (again.length === 0) return;
  const reason = await guardMissing(tx, intake, { isEmpty: open.size === 0, now });
  if (reason !== undefined) return pauseIntakeFor(tx, intake.name, { kind: 'withdrawals', reason }, now);
  await storeOpen(tx, intake, keysOf(again), { open: false, now });
}

const keysOf = (rows: readonly { erpKey: string }[]) => rows.map(({ erpKey }) => erpKey);

/** Returns why none of those that are missing counts as withdrawn now; undefined when they do. */
async function guardMissing(
  tx: Sql,
  intake: IntakeSettings,
  { isEmpty, now }: { isEmpty: boolean; now: Timestamp },
): Promise<string | undefined> {
  const { most, share } = intake.archive;
  const since = timestampFromMs(msFromTimestamp(now) - guardHours * 3_600_000);
  const [counted] = await tx.query<{ waiting: number; withdrawn: number; open: number }>(
    `select count(*) filter (where r.open and r.missing_since < $3
         and (r.missing_since <= i.archives_agreed) is not true)::int as waiting,
       count(*) filter (where not r.open and r.missing_since > $2
         and (r.missing_since <= i.archives_agreed) is not true)::int as withdrawn,
       count(*) filter (where r.open)::int as open
     from bridge.intakes i join bridge.intake_records r on r.intake = i.name where i.name = $1`,
    [intake.name, since, now],
  );
  const { waiting = 0, withdrawn = 0, open = 0 } = counted ?? {};
  const number = waiting + withdrawn;
  const isLittle = number <= most || number <= share * (open + withdrawn);
  // An empty list is what a user without rights sees.
  if (waiting === 0 || (isLittle && !(isEmpty && waiting > 1))) return undefined;
  const before = withdrawn === 0 ? '' : ` (${withdrawn} within the last ${guardHours} h)`;
  return (
    `${waiting} of ${open} open requisitions are missing in the ERP at once${before}. If they were deleted there, ` +
    `agree to it: bridge resume ${intake.name} --agree`
  );
}

async function storeMissingSince(tx: Sql, intake: string, keys: readonly string[], since: Timestamp | null) {
  if (keys.length > 0)
    await tx.query(
      'update bridge.intake_records set missing_since = $3 where intake = $1 and erp_key = any($2::text[])',
      [intake, keys, since],
    );
}

/** Makes new versions of these, which differ in `open` only. */
async function storeOpen(
  tx: Sql,
  { name: intake, source }: IntakeSettings,
  keys: readonly string[],
  { open, now }: { open: boolean; now: Timestamp },
): Promise<void> {
  // One after the other: each may carry files of some megabytes.
  for (const key of keys) {
    const [row] = await tx.query<{ body: string; missingSince: Timestamp | null }>(
      `select body, missing_since as "missingSince" from bridge.intake_records where intake = $1 and erp_key = $2`,
      [intake, key],
    );
    if (!row) continue;
    const record: RequisitionRecord = { ...(JSON.parse(row.body) as RequisitionRecord), open };
    await storePage(tx, { intake, source, records: [{ record, matchValues: [] }], bad: [], seen: now, now });
    await storeMissingSince(tx, intake, [key], open ? null : row.missingSince);
  }
}
