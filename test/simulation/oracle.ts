/** Computes what the ERP should hold from what the source shows now, without the code under test. */
import type { Body, HostileSource } from './hostile-source.ts';
import type { Scenario } from './scenario.ts';

type Row = Record<string, unknown>;

/** The documents that a flow wants, by kind and key. */
export function wantedDocuments(
  source: HostileSource,
  flow: Pick<Scenario['settings'], 'testEvents' | 'documents'>,
): Map<string, Row> {
  const events = source.currents('sourcing-events');
  const awards = source.currents('awards');
  const bids = source.currents('latest-bids');
  const documents = new Map<string, Row>();
  const add = (kind: Scenario['settings']['documents'][number], key: string, rest: Row) => {
    if (flow.documents.includes(kind)) documents.set(`${kind} ${key}`, { kind, key, ...rest });
  };
  for (const [id, event] of events) {
    if (event['status'] === 'DELETED' || (event['is_test'] === true && !flow.testEvents)) continue;
    const rates = event['secondary_currencies'];
    const money = { currency: event['primary_currency'], exchange_rates: rates };
    const head = headOf(id, event);
    const suppliers = event['suppliers'] as Row[];
    add('sourcing-event', id, {
      event: head,
      status: event['status'],
      ...money,
      rounds: [],
      columns: [],
      sourcing_requests: [],
      suppliers: [...suppliers].sort((a, b) => (String(a['id']) < String(b['id']) ? -1 : 1)),
    });
    for (const supplier of suppliers) {
      const key = `${id}/${String(supplier['id'])}`;
      const won = linesOf(awards, id, (award) =>
        (award['awards'] as Row[]).filter((entry) => entry['supplier'] === supplier['id']).map(wonLine),
      );
      const total = sumOf(won.map(({ cost }) => String(cost)));
      if (won.length > 0) add('award', key, { event: head, supplier, ...money, total_cost: total, lines: won });
      const bidden = linesOf(bids, id, (bid) =>
        bid['supplier'] === supplier['id'] && (bid['bids'] as Row[]).length > 0
          ? [{ bids: bid['bids'], values: valuesOf(bid) }]
          : [],
      );
      if (bidden.length > 0) add('quotation', key, { event: head, supplier, ...money, lines: bidden });
    }
  }
  return documents;
}

function headOf(id: string, event: Body): Row {
  const { name, type, is_test, tags, reference_id } = event;
  return { id, name, type, is_test, tags, ...(reference_id === undefined ? {} : { reference_id }) };
}

/** The lines of one event's records, in the order of their lots. */
function linesOf(records: ReadonlyMap<string, Body>, event: string, make: (record: Body) => Row[]): Row[] {
  return [...records.values()]
    .filter((record) => record['sourcing_event'] === event)
    .sort((a, b) => (String(a['lot_name']) < String(b['lot_name']) ? -1 : 1))
    .flatMap((record) => make(record).map((line) => ({ lot: record['lot_name'], ...line })));
}

function wonLine(entry: Row): Row {
  return { share: entry['share_awarded'], cost: entry['cost'], values: valuesOf(entry) };
}

function valuesOf(entry: Row): Row[] {
  return (entry['bid_sheet_values'] as Row[]).map(({ column_name: column, ...rest }) => ({ column, ...rest }));
}

/** The sum of decimals with at most two places, without trailing zeros. */
function sumOf(decimals: readonly string[]): string {
  const cents = decimals.reduce((sum, text) => {
    const [whole = '0', places = ''] = text.split('.');
    return sum + Number(whole) * 100 + Number(places.padEnd(2, '0'));
  }, 0);
  const places = String(cents % 100)
    .padStart(2, '0')
    .replace(/0+$/, '');
  return `${Math.floor(cents / 100)}${places === '' ? '' : `.${places}`}`;
}

/** JSON that does not depend on the order of an object's members. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) =>
    member !== null && typeof member === 'object' && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}
