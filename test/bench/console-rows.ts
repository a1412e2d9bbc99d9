/**
 * A bridge with many documents, as rows: events with five awards each, half of them of the flow `sap` and half of
 * `archive`; an attempt and a version for each. Written by the database itself, since a push would take an hour.
 */
import type { Database } from '#platform/database/database.ts';

const documentsOfEvent = 5;
const suppliersMost = 5_000;

/** Writes the rows of a bridge that has been at work for a while. */
export async function writeConsoleRows(database: Database, documents: number): Promise<void> {
  const events = Math.ceil(documents / documentsOfEvent);
  const suppliers = Math.min(suppliersMost, documents);
  const id = (group: string, number: string) => `'00000000-0000-4000-${group}-' || lpad(to_hex(${number}), 12, '0')`;
  const eventOf = id('9000', `n / ${documentsOfEvent}`);
  const supplierOf = id('b000', `(n * 7919) % ${suppliers}`);
  const flowOf = `case n % 2 when 0 then 'sap' else 'archive' end`;
  const keyOf = `${eventOf} || '/' || ${supplierOf}`;
  /** One in fifty was refused, one in a hundred waits. */
  const refused = 'n % 50 = 1';
  const waits = 'n % 100 = 2';
  const isHeld = `not (${refused}) and not (${waits})`;
  const at = `timestamptz '2026-11-01' + n * interval '1 second'`;
  const run = (statement: string) => database.query(statement);
  const body = `json_build_object('kind', 'award', 'key', ${keyOf}, 'total_cost', (n % 90000 + 1000) || '.50', 'lines',
    json_build_array(json_build_object('lot', 'Lot ' || n % 50, 'cost', (n % 90000 + 1000) || '.50')))`;
  await run(`insert into bridge.flows (name, source, kinds) values ('sap', 'main', '{award}'), ('archive', 'main', '{award}')
    on conflict (name) do update set kinds = excluded.kinds`);
  await run(`insert into bridge.subjects (source, kind, id, name, reference, folded)
    select 'main', 'event', ${id('9000', 'n')}, 'Forged steel flanges ' || n, 'RFQ-' || n,
      'forged steel flanges ' || n || ' rfq-' || n from generate_series(0, ${events - 1}) n
    union all
    select 'main', 'supplier', ${id('b000', 'n')}, 'Supplier ' || n, 'V-' || 100000 + n, 'supplier ' || n || ' v-' || 100000 + n
    from generate_series(0, ${suppliers - 1}) n`);
  await run(`insert into bridge.mirror (source, feed, record_id, modified, content_hash, sourcing_event, body, seen)
    select 'main', 'sourcing-events', ${id('9000', 'n')}, ${at}, sha256(n::text::bytea), ${id('9000', 'n')},
      json_build_object('id', ${id('9000', 'n')}, 'name', 'Forged steel flanges ' || n, 'reference_id', 'RFQ-' || n,
        'type', 'RFQ', 'status', case n % 3 when 0 then 'OPEN' else 'CLOSED' end, 'primary_currency', 'EUR',
        'suppliers', json_build_array())::text, ${at}
    from generate_series(0, ${events - 1}) n`);
  await run(`insert into bridge.flow_documents (flow, kind, key, sourcing_event, supplier, wanted, reconciled, due,
      waiting_since, delivered_hash, reference, delivered, attempts, error_type, last_error, dead_since)
    select ${flowOf}, 'award', ${keyOf}, ${eventOf}, ${supplierOf}, 1, case when ${isHeld} then 1 else 0 end,
      case when ${waits} then timestamptz '2027-01-01' end, case when ${isHeld} then null else ${at} end,
      case when ${isHeld} then md5(n::text) end, case when ${isHeld} then (4500000000 + n)::text end,
      case when ${isHeld} then ${at} end, case when ${isHeld} then 0 else 1 end,
      case when ${refused} then 'data' when ${waits} then 'transient' end,
      case when ${refused} then 'Vendor ' || n || ' is blocked for purchasing' when ${waits} then 'HTTP 503' end,
      case when ${refused} then ${at} end
    from generate_series(0, ${documents - 1}) n`);
  await run(`insert into bridge.attempts (id, flow, kind, key, sourcing_event, event_name, supplier, supplier_name, amount,
      currency, action, step, outcome, number, started, ended, error_type, message, reference, content_hash, request_id)
    select uuidv7(${at} - now()), ${flowOf}, 'award', ${keyOf}, ${eventOf}, 'Forged steel flanges ' || n / ${documentsOfEvent},
      ${supplierOf}, 'Supplier', (n % 90000 + 1000) || '.50', 'EUR', 'create', 'write',
      case when ${refused} then 'rejected' when ${waits} then 'retry' else 'created' end, 1, ${at}, ${at},
      case when ${refused} then 'data' when ${waits} then 'transient' end, null,
      case when ${isHeld} then (4500000000 + n)::text end, md5(n::text), gen_random_uuid()
    from generate_series(0, ${documents - 1}) n`);
  await run(`insert into bridge.document_versions (flow, kind, key, content_hash, body, made_of, sent)
    select ${flowOf}, 'award', ${keyOf}, md5(n::text), ${body}::text, '[]', ${at} from generate_series(0, ${documents - 1}) n`);
  await run(
    'vacuum (analyze) bridge.flow_documents, bridge.subjects, bridge.mirror, bridge.attempts, bridge.document_versions',
  );
}
