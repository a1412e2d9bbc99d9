/** Computes what the ERP should hold from what the source shows now, without the code under test. */
import type { Body, HostileSource } from './hostile-source.ts';
import type { Scenario } from './scenario.ts';
import { eventJobType, type ManagedSupplier } from './simulated-service.ts';

type Row = Record<string, unknown>;

/** The documents that a flow wants, by kind and key; beside the feeds: the source's list of suppliers, and jobs that ended. */
export function wantedDocuments(
  source: HostileSource,
  { suppliers: list, jobs }: { suppliers: Iterable<ManagedSupplier>; jobs: readonly (Row & { id: string })[] },
  flow: Pick<Scenario['settings'], 'testEvents' | 'documents'>,
): Map<string, Row> {
  const events = source.currents('sourcing-events');
  const awards = source.currents('awards');
  const bids = source.currents('latest-bids');
  const answers = [...source.currents('rfi-responses').values()];
  const documents = new Map<string, Row>();
  const add = (kind: Scenario['settings']['documents'][number], key: string, rest: Row) => {
    if (flow.documents.includes(kind)) documents.set(`${kind} ${key}`, { kind, key, ...rest });
  };
  for (const { id, ...ended } of jobs) add('job', id, { type: eventJobType, ...ended, errors: [] });
  for (const supplier of list) add('supplier', supplier.external_id, masterOf(supplier));
  // A file that several answers name is shown with the first of them.
  for (const answer of answers.toSorted(byEventQuestionAndSupplier).reverse()) {
    const eventId = String(answer['sourcing_event']);
    const event = events.get(eventId);
    if (!event || event['status'] === 'DELETED' || (event['is_test'] === true && !flow.testEvents)) continue;
    const supplier = supplierIn(event, answer['supplier']);
    const shown = { event: headOf(eventId, event), supplier, question: questionOf(answer) };
    for (const file of filesOf(answer)) add('file', file, shown);
  }
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
    const all = linesOf(awards, id, (award) => wonInOrder(award, suppliers));
    if (event['status'] === 'CLOSED' && all.length > 0)
      add('event-awards', id, { event: head, ...money, ...totalsOf(all), lines: all });
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
      const answered = answers
        .filter((answer) => answer['sourcing_event'] === id && answer['supplier'] === supplier['id'])
        .filter((answer) => answer['value'] ?? answer['comment'] ?? filesOf(answer)[0])
        .sort(byEventQuestionAndSupplier)
        .map(answerLine);
      if (answered.length > 0) add('rfi-answers', key, { event: head, supplier, lines: answered });
    }
  }
  return documents;
}

/** The lines of a lot's award, by the ids of the suppliers. */
function wonInOrder(award: Body, suppliers: readonly Row[]): Row[] {
  const entries = award['awards'] as Row[];
  return suppliers
    .toSorted((a, b) => (String(a['id']) < String(b['id']) ? -1 : 1))
    .flatMap((supplier) =>
      entries.filter((entry) => entry['supplier'] === supplier['id']).map((entry) => ({ supplier, ...wonLine(entry) })),
    );
}

/** The totals of an event's lines: of all of them, and of each supplier. */
function totalsOf(lines: readonly Row[]): Row {
  const bySupplier = Map.groupBy(lines, ({ supplier }) => supplier as Row);
  const totalOf = (own: readonly Row[]) => sumOf(own.map(({ cost }) => String(cost)));
  const suppliers = [...bySupplier]
    .map(([supplier, own]): Row => ({ ...supplier, total_cost: totalOf(own) }))
    .sort((a, b) => (String(a['id']) < String(b['id']) ? -1 : 1));
  return { total_cost: totalOf(lines), suppliers };
}

function masterOf({ external_id, name, archived, fields, contacts }: ManagedSupplier): Row {
  const attributes = Object.keys(fields)
    .sort()
    .map((attribute) => ({ name: attribute, value: fields[attribute] }));
  return { external_id, name, archived, attributes, contacts };
}

function supplierIn(event: Body, id: unknown): Row | undefined {
  return (event['suppliers'] as Row[]).find((supplier) => supplier['id'] === id);
}

function filesOf(answer: Body): string[] {
  return [...((answer['document_file_uuids'] as string[] | undefined) ?? [])].sort();
}

/** No questions are read, so each is shown by its id. */
function questionOf(answer: Body): Row {
  return { id: answer['question_uuid'], categories: [] };
}

function answerLine(answer: Body): Row {
  const { value, comment } = answer;
  return {
    question: questionOf(answer),
    ...(value === undefined ? {} : { value }),
    options: [],
    ...(comment === undefined ? {} : { comment }),
    files: filesOf(answer),
  };
}

function byEventQuestionAndSupplier(a: Body, b: Body): number {
  const place = (answer: Body) => [answer['sourcing_event'], answer['question_uuid'], answer['supplier']].join(' ');
  return place(a) < place(b) ? -1 : 1;
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
