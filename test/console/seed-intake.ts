/** An intake in the database, as the bridge would have left it: paused, as more is to be archived than its bounds allow. */
import { createHash } from 'node:crypto';
import type { SupplierRecord } from '#connector/records.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';

export const seededIntake = {
  name: 'vendors',
  source: 'main',
  connector: 'tryton',
  archive: { most: 2, share: 0.1 },
};

interface SeededRecord {
  readonly record: SupplierRecord;
  /** What both sides agreed on before; undefined: the service does not have it. */
  readonly before?: SupplierRecord;
  readonly action: 'create' | 'update' | 'archive' | null;
  readonly dead?: { readonly type: string; readonly why: string };
}

/** `hostileName` is the name of one that is to be created. */
export async function seedIntake(database: Database, nowMs: number, hostileName: string): Promise<void> {
  const at = (minutesAgo: number) => timestampFromMs(nowMs - minutesAgo * 60_000);
  await database.query(
    `insert into bridge.intakes (name, source, stream, connector, next_read, last_read, begun, paused_kind, paused_reason,
       paused_at)
     values ('vendors', 'main', 'supplier', 'tryton', $1, $2, $2, 'archives',
       '3 suppliers are to be archived within 24 hours, and 2 are allowed', $3)`,
    [timestampFromMs(nowMs + 120_000), at(2), at(25)],
  );
  await database.query(`insert into bridge.supplier_lists (source, next_pull, last_pull) values ('main', $1, $2)`, [
    timestampFromMs(nowMs + 600_000),
    at(4),
  ]);
  const supplier = (number: number, name: string, more: Partial<SupplierRecord> = {}): SupplierRecord => ({
    external_id: `K-${number}`,
    name,
    archived: false,
    fields: { City: 'Utrecht' },
    contacts: [{ name: 'Sales', email: `sales@k${number}.example` }],
    ...more,
  });
  const archived = (number: number, name: string): SeededRecord => ({
    record: supplier(number, name, { archived: true }),
    before: supplier(number, name),
    action: 'archive',
  });
  const records: SeededRecord[] = [
    archived(7001, 'Alt & Söhne'),
    archived(7002, 'Beaumont Frères'),
    archived(7003, 'Castle Forge'),
    { record: supplier(7004, hostileName), action: 'create' },
    { record: supplier(7005, 'Delta Pumps'), action: 'create' },
    {
      record: supplier(7006, 'Ernst Metall GmbH'),
      before: supplier(7006, 'Ernst Metall', { fields: { City: 'Bonn' } }),
      action: 'update',
    },
    {
      record: supplier(7007, 'Ferro Ltd'),
      action: null,
      dead: { type: 'data', why: 'contacts: "sales@k7007.example" is used by another supplier' },
    },
    {
      record: supplier(7008, 'Grün'),
      action: null,
      dead: { type: 'ambiguous', why: '2 suppliers of the service have the name "Grün"' },
    },
  ];
  for (const [index, { record, before, action, dead }] of records.entries()) {
    const body = JSON.stringify(record);
    const { external_id: _, ...view } = before ?? record;
    await database.query(
      `insert into bridge.intake_records (intake, erp_key, source, key, linked, content_hash, body, first_seen, seen, due,
         waiting_since, action, base, held, held_at, error_type, last_error, dead_since)
       values ('vendors', $1, 'main', $2, $3, $4, $5, $6, $6, $7, $7, $8, $9, $9, $10, $11, $12, $13)`,
      [
        record.external_id,
        dead?.type === 'ambiguous' ? null : record.external_id,
        before ? 'id' : 'new',
        createHash('sha256').update(body).digest(),
        body,
        at(40),
        dead ? null : at(30 - index),
        action,
        before ? JSON.stringify(view) : null,
        before ? at(35) : null,
        dead?.type ?? null,
        dead?.why ?? null,
        dead ? at(20 - index) : null,
      ],
    );
  }
}
