/**
 * No member of a document is forgotten on its way: the bridge fills each of them, and at least one connector of ours
 * shows it. A member that nothing fills, or that no connector shows, fails here under its name.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { makeDocuments } from '#bridge/mirror/assemble/make-documents.ts';
import { nameOwnJob } from '#bridge/mirror/jobs-to-read.ts';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { storeResources } from '#bridge/mirror/store-resources.ts';
import { type Document, type DocumentKind, documentKinds } from '#connector/documents.ts';
import { feedNames } from '#contract/feed.ts';
import { cellSource, rowsOf as fileRowsOf, fixedColumns } from '../../connectors/file/columns.ts';
import { addCells, rowsOf, tablesOf } from '../../connectors/postgres/tables.ts';
import { flowOf, idOf } from '../bridge/parts.ts';
import {
  completeIncludedSupplier,
  completeQuestion,
  completeRecords,
  completeSupplier,
} from '../harness/complete-records.ts';
import { completeDocument, membersIn, membersOf } from '../harness/document-members.ts';
import { createTestDatabase } from '../harness/test-database.ts';

const now = '2030-06-01T00:00:00.000000Z';
const flow = flowOf({
  documents: [...documentKinds],
  quantity_column: 'Volume',
  unit_price_column: 'Price',
  mapping: Object.fromEntries(
    documentKinds.map((kind) => [
      kind,
      { fields: { Own: 'key' }, lines: membersOf(kind).includes('lines[].fields') ? { Own: 'key' } : {} },
    ]),
  ),
});

const completeJob = {
  id: idOf(7),
  type: 'CREATE_SOURCING_EVENT',
  status: 'FAILED',
  created: now,
  created_entity: idOf(8),
  errors: [{ path: 'name', message: 'is taken' }],
};

/** The members that the bridge fills from records and objects that have every member of the contract. */
let filled: ReadonlyMap<DocumentKind, ReadonlySet<string>>;

beforeAll(async () => {
  const db = await createTestDatabase();
  await registerFlows(db.database, [flow], now);
  await db.database.transaction(async (tx) => {
    const of = { source: flow.source, now };
    for (const feed of feedNames)
      await storeRecords(tx, { ...of, feed, records: [{ ...completeRecords[feed], modified: now }] });
    for (const [kind, object] of [
      ['question', completeQuestion],
      ['supplier', completeIncludedSupplier],
      ['supplier-master', completeSupplier],
      ['job', completeJob],
    ] as const)
      await storeResources(tx, { ...of, kind, objects: [{ ...object }], observed: now });
  });
  await db.database.query(
    `insert into bridge.checkpoints (source, feed, next_pull, watermark, last_pull) values ($1, 'awards', $2, $2, $2)`,
    [flow.source, now],
  );
  // An intake has sent the job, and made the event of a requisition.
  const own = { source: flow.source, job: completeJob.id, reference: 'PR-1' };
  await nameOwnJob(db.database, own, { now, due: now });
  const { sourcing_event: event, lot_name: lot } = completeRecords.awards;
  await db.database.query(
    `insert into bridge.intakes (name, source, stream, connector, next_read) values ('own', $1, 'requisition', 'c', now())`,
    [flow.source],
  );
  await db.database.query(
    `with e as (
       insert into bridge.intake_events (id, intake, source, make, group_key, state, created, ready, entity)
       values (gen_random_uuid(), 'own', $1, 'event', 'g', 'made', now(), now(), $2) returning id),
     r as (
       insert into bridge.intake_records (intake, erp_key, source, content_hash, body, first_seen, seen)
       values ('own', 'PR-1', $1, '', '{}', now(), now()))
     insert into bridge.intake_members (event, intake, erp_key, lots, need_hash, made_lots)
     select id, 'own', 'PR-1', 1, '', $3 from e`,
    [flow.source, event, JSON.stringify([{ lot, line: '10' }])],
  );
  const keys = await db.database.query<{ kind: DocumentKind; key: string }>(
    'select kind, key from bridge.flow_documents',
  );
  const made = await makeDocuments(db.database, flow, keys);
  const members = new Map<DocumentKind, Set<string>>(documentKinds.map((kind) => [kind, new Set()]));
  for (const [place, result] of made) {
    if (result.made !== 'document') throw new Error(`${place}: ${result.reason}`);
    for (const member of membersIn(result.document)) members.get(result.document.kind)?.add(member);
  }
  filled = members;
  return () => db.drop();
});

/** What a connector holds of a document, as text: it changes with each member that the connector shows. */
const connectors: Readonly<Record<string, (document: Document) => string>> = {
  postgres: (document) =>
    JSON.stringify(
      tablesOf(document.kind).map((table) => [
        document.key,
        rowsOf(table, document).map((row) => addCells([], table, row)),
      ]),
    ),
  file: (document) => {
    // The hash is empty, because it would change with every member.
    const operation = {
      action: 'create' as const,
      document,
      contentHash: '',
      idempotencyKey: '',
      reference: undefined,
    };
    const columns = fixedColumns(document.kind, true).map(({ from }) => cellSource(document.kind, from));
    return JSON.stringify(fileRowsOf(operation, 'current').map((row) => columns.map(({ read }) => read(row))));
  },
};

/** Members that need not be shown, and why. */
const unshown: Readonly<Record<string, string>> = { kind: 'it is the name of the table' };

describe.each(documentKinds)('each member of the document %s', (kind) => {
  test('is filled by the bridge', () => {
    const missing = membersOf(kind).filter((member) => !filled.get(kind)?.has(member));
    expect(missing, `fill these members in src/bridge/documents/${kind}-document.ts`).toEqual([]);
  });

  test('is shown by a connector', () => {
    const shows = (member: string) =>
      Object.values(connectors).some((held) => held(completeDocument(kind)) !== held(completeDocument(kind, member)));
    const missing = membersOf(kind).filter((member) => !(member in unshown) && !shows(member));
    expect(missing, 'show these members in connectors/postgres/tables.ts, or list them above with a reason').toEqual(
      [],
    );
  });
});
