/** What stood in tables that were merged since is found in its new place, in its order. */
import { expect, test } from 'vitest';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { migrateService } from '#service/create-service.ts';
import { databaseAt } from './database-at.ts';

const id = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const at = '2026-05-04T03:02:01.000001Z';

test('of the service: links, attempts, awards, uploads, attributes and an erasure that was interrupted', async () => {
  const db = await databaseAt('service', '019');
  const [organisation, file, other, request, event] = [id(1), id(2), id(3), id(4), id(5)];
  const [lot, supplier, webhook, upload, abandoned] = [id(6), id(7), id(8), id(9), id(10)];
  await db.database.query(`
    insert into service.organisations (id, name, created) values ('${organisation}', 'Acme', '${at}');
    insert into service.files (id, organisation_id, file_name, content_type, size, sha256, created)
      select f, '${organisation}', f, 'text/plain', 3, '\\x00', '${at}' from unnest('{${file},${other}}'::uuid[]) f;
    insert into service.file_uploads (id, organisation_id, reserved, created, abandoned)
      values ('${upload}', '${organisation}', 7, '${at}', false), ('${abandoned}', '${organisation}', 0, '${at}', true);
    insert into service.sourcing_requests (id, organisation_id, name, description, tags, items, created_by, created, modified)
      select r, '${organisation}', 'r', '', '[]', '[]', '${id(20)}', '${at}', '${at}'
      from unnest('{${request},${id(11)}}'::uuid[]) r;
    insert into service.sourcing_events (id, organisation_id, name, description, type, status, primary_currency,
        secondary_currencies, tags, columns, column_roles, global_values, is_test, created_by, created)
      values ('${event}', '${organisation}', 'e', '', 'RFQ', 'OPEN', 'EUR', '[]', '[]', '[]', '{}', '{}', false, '${id(20)}', '${at}');
    insert into service.event_files (event_id, file_id) values ('${event}', '${other}'), ('${event}', '${file}');
    insert into service.request_files (request_id, file_id) values ('${request}', '${file}');
    insert into service.event_requests (event_id, request_id, position)
      values ('${event}', '${request}', 2), ('${event}', '${id(11)}', 1);
    insert into service.lots (id, event_id, position, name, values) values ('${lot}', '${event}', 0, 'A', '{}');
    insert into service.suppliers (id, organisation_id, external_id, name, modified)
      values ('${supplier}', '${organisation}', 'S1', 'S', '${at}');
    insert into service.supplier_attributes (id, organisation_id, name)
      values ('${id(12)}', '${organisation}', 'Region'), ('${id(13)}', '${organisation}', 'City');
    insert into service.scenarios (event_id, name) values ('${event}', 'best'), ('${event}', 'none');
    insert into service.scenario_awards (event_id, scenario, lot_id, supplier_id, share)
      values ('${event}', 'best', '${lot}', '${supplier}', '0.5');
    insert into service.webhooks (id, organisation_id, name, description, url, triggers, signing_alg, signing_key, created)
      values ('${webhook}', '${organisation}', 'w', '', 'https://a.example', '{}', 'HS256', '\\x00', '${at}');
    insert into service.deliveries (id, webhook_id, trigger, coalesces, payload, created, state, attempts, due, finished,
        accepted_at, accepted_status, accepted_duration_ms, accepted_excerpt)
      values ('${id(14)}', '${webhook}', 'TEST', false, '{}', '${at}', 'delivered', 2, '${at}', '${at}', '${at}', 204, 5, 'OK'),
        ('${id(15)}', '${webhook}', 'TEST', false, '{}', '${at}', 'pending', 0, '${at}', null, null, null, null, null);
    insert into service.delivery_attempts (delivery_id, number, at, status, duration_ms, error, operator_error, response_excerpt)
      values ('${id(14)}', 1, '${at}', null, 9, 'refused', 'refused 10.0.0.1', null);
    insert into service.erased_organisations (organisation_id, started, removed)
      values ('${organisation}', '${at}', '{"service.bids": 4}')`);

  await migrateService(db.database);

  const read = async (statement: string) => db.database.query(statement);
  expect(await read('select files, sourcing_requests from service.sourcing_events')).toEqual([
    { files: [other, file], sourcing_requests: [id(11), request] },
  ]);
  expect(await read('select id, files from service.sourcing_requests order by id')).toEqual([
    { id: request, files: [file] },
    { id: id(11), files: [] },
  ]);
  expect(await read('select id, state, size::int as size from service.files order by id')).toEqual([
    { id: file, state: 'file', size: 3 },
    { id: other, state: 'file', size: 3 },
    { id: upload, state: 'upload', size: 7 },
    { id: abandoned, state: 'abandoned', size: 0 },
  ]);
  expect(await read('select supplier_attributes, removed from service.organisations')).toEqual([
    { supplier_attributes: ['City', 'Region'], removed: { 'service.bids': 4 } },
  ]);
  expect(await read('select name, awards from service.scenarios order by name')).toEqual([
    { name: 'best', awards: [{ lotId: lot, supplierId: supplier, share: '0.5' }] },
    { name: 'none', awards: [] },
  ]);
  expect(await read('select attempt_log from service.deliveries order by id')).toEqual([
    {
      attempt_log: [
        { number: 1, time: at, duration_ms: 9, error: 'refused', operator_error: 'refused 10.0.0.1' },
        { number: 2, time: at, status: 204, duration_ms: 5, response_excerpt: 'OK' },
      ],
    },
    { attempt_log: [] },
  ]);
});

test('of the bridge: totals of comparisons, news of requisitions, sessions and links of the console', async () => {
  const db = await databaseAt('bridge', '044');
  await db.database.query(`
    insert into bridge.reconciliations (flow, asked_by, started) values ('erp', 'Ann', '${at}');
    insert into bridge.reconciliation_totals (run, kind, currency, state, documents, amount)
      values (1, 'award', 'EUR', 'as delivered', 2, 10.50), (1, 'file', '', 'missing', 1, 0);
    insert into bridge.intakes (name, source, stream, connector, next_read)
      values ('in', 'main', 'requisition', 'memory', '${at}');
    insert into bridge.intake_records (intake, erp_key, source, content_hash, body, first_seen, seen)
      select 'in', key, 'main', '\\x00', '{}', '${at}', '${at}' from unnest('{PR-1,PR-2}'::text[]) key;
    insert into bridge.intake_acknowledgements (intake, erp_key, id, wanted, state, next_try, failures, last_error, told,
        reference, told_at)
      values ('in', 'PR-1', '${id(1)}', '{"status":"published"}', 'waiting', '${at}', 3, 'down', '{"status":"created"}',
        'R-1', '${at}');
    insert into bridge.console_sessions (token_hash, name, role, method, created, last_used, ends)
      values ('\\x01', 'ann', 'viewer', 'openid', '${at}', '${at}', '${at}');
    insert into bridge.console_links (token_hash, name, role, flows, ends) values ('\\x02', 'bob', 'operator', '{erp}', '${at}')`);

  await migrateBridge(db.database);

  const read = async (statement: string) => db.database.query(statement);
  expect(
    await read(`select t.* from bridge.reconciliations, jsonb_to_recordset(totals)
      as t (kind text, currency text, state text, documents int, amount text) order by kind`),
  ).toEqual([
    { kind: 'award', currency: 'EUR', state: 'as delivered', documents: 2, amount: '10.50' },
    { kind: 'file', currency: null, state: 'missing', documents: 1, amount: '0' },
  ]);
  expect(
    await read(`select erp_key, news, news_id, news_state, news_due, news_failures, news_error, told, told_reference, told_at
      from bridge.intake_records order by erp_key`),
  ).toEqual([
    {
      erp_key: 'PR-1',
      news: '{"status":"published"}',
      news_id: id(1),
      news_state: 'waiting',
      news_due: at,
      news_failures: 3,
      news_error: 'down',
      told: '{"status":"created"}',
      told_reference: 'R-1',
      told_at: at,
    },
    expect.objectContaining({ erp_key: 'PR-2', news: null, news_state: null, news_failures: 0, told: null }),
  ]);
  expect(await read('select kind, name, role, flows, method, ends from bridge.console_tokens order by name')).toEqual([
    { kind: 'session', name: 'ann', role: 'viewer', flows: null, method: 'openid', ends: at },
    { kind: 'link', name: 'bob', role: 'operator', flows: ['erp'], method: null, ends: at },
  ]);
});
