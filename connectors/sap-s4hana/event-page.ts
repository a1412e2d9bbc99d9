/** The page that is attached for a sourcing event. */
import { escapedHtml, type SourcingEventDocument } from 'sourcing-bridge/connector';

/** An HTML page in UTF-8 with what the event's document says. All texts are escaped. */
export function eventPage(document: SourcingEventDocument): Uint8Array {
  const { event, status, currency, exchange_rates, created, published, closed, lot_count, contact, columns } = document;
  const { rounds, suppliers, sourcing_requests } = document;
  const facts: (readonly [name: string, value: string | undefined])[] = [
    ['Reference', event.reference_id],
    ['Id', event.id],
    ['Type', event.type],
    ['Category', event.category],
    ['Test', event.is_test ? 'yes' : undefined],
    ['Status', status],
    ['Currency', currency],
    ['Exchange rates', exchange_rates.map(({ code, exchange_rate }) => `${code} ${exchange_rate}`).join(', ')],
    ['Created', created],
    ['Published', published],
    ['Closed', closed],
    ['Lots', lot_count === undefined ? undefined : String(lot_count)],
    ['Contact', [contact?.name, contact?.email].filter((part) => part !== undefined).join(', ')],
    ['Columns', columns.join(', ')],
    ['Sourcing requests', sourcing_requests.join(', ')],
    ['Tags', event.tags.map(({ name, value }) => `${name}: ${value}`).join(', ')],
  ];
  const shownFacts = facts.flatMap(([name, value = '']) => (value === '' ? [] : [[name, value]]));
  const shownRounds = rounds.map(({ status: state, starts = '', ends = '', awarded_cost = '' }) => [
    state,
    starts,
    ends,
    awarded_cost,
  ]);
  const shownSuppliers = suppliers.map(({ name, external_id = '', accepted, participated }) => [
    name,
    external_id,
    shownFlag(accepted),
    shownFlag(participated),
  ]);
  const page = `<!doctype html>
<html>
<head>
<meta charset="utf-8">
<title>${escapedHtml(event.name)}</title>
<style>body{font-family:sans-serif}td,th{border:1px solid #999;padding:.3em;text-align:left;vertical-align:top}table{border-collapse:collapse}td{white-space:pre-wrap}</style>
</head>
<body>
<h1>${escapedHtml(event.name)}</h1>
${table([], shownFacts)}
${table(['Round', 'Starts', 'Ends', 'Awarded cost'], shownRounds)}
${table(['Supplier', 'Number', 'Accepted', 'Participated'], shownSuppliers)}
</body>
</html>
`;
  return Buffer.from(page, 'utf8');
}

function shownFlag(flag: boolean | undefined): string {
  return flag === undefined ? '' : flag ? 'yes' : 'no';
}

/** Nothing for a table without rows. */
function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return '';
  const row = (cells: readonly string[], tag: string) =>
    `<tr>${cells.map((cell) => `<${tag}>${escapedHtml(cell)}</${tag}>`).join('')}</tr>`;
  return `<table>\n${[...(titles.length > 0 ? [row(titles, 'th')] : []), ...rows.map((cells) => row(cells, 'td'))].join('\n')}\n</table>`;
}
