/**
 * A report as a page to print: one HTML file that loads nothing. It shows what the signed JSON says; the proof is that
 * file, whose hash and signature the page names.
 */
import { escapedHtml } from '#connector/answers-page.ts';
import { findingNames } from './finding-names.ts';
import {
  amountOfStates,
  documentsIn,
  type ReportContent,
  reportHash,
  reportText,
  type SignedReport,
  statementOf,
} from './report-form.ts';
import { keyFingerprint } from './report-signature.ts';

type Cell = string | number | null | undefined;

const states = ['as delivered', ...findingNames] as const;

/** Returns the page. */
export function reportPage(signed: SignedReport): string {
  const { report, signature } = signed;
  const title = `Report ${report.number}: ${report.flow}`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escapedHtml(title)}</title>
<style>${style}</style>
</head>
<body>
<h1>${escapedHtml(title)}</h1>
<p class="statement">${escapedHtml(statementOf(report))}</p>
${facts(report)}
<h2>Amounts</h2>
${amounts(report)}
<h2>Documents</h2>
${documents(report)}
<h2>Differences</h2>
${differences(report)}
${notCompared(report)}
<h2>Signature</h2>
${list([
  ['SHA-256 of the file', reportHash(reportText(signed))],
  ['Report before this one', report.previous && `${report.previous.number}, SHA-256 ${report.previous.hash}`],
  ['Signed with', `${signature.algorithm}, the key with the fingerprint ${fingerprint(signature.publicKey)}`],
  ['Signature', signature.value],
])}
<p>The signed report is the JSON file, not this page. <code>sourcing-bridge verify-report FILE --key KEY</code> checks it
without a bridge, and prints this page of it.</p>
</body>
</html>
`;
}

function fingerprint(publicKey: string): string {
  return keyFingerprint(Buffer.from(publicKey, 'base64url'));
}

function facts(report: ReportContent): string {
  return list([
    ['Flow', `${report.flow}, from the source ${report.source} through the connector ${report.connector}`],
    ['Compared', `from ${report.started} to ${report.ended} (UTC)`],
    [
      'Documents',
      report.events === null ? 'everything that was delivered' : `of the events ${report.events.join(', ')}`,
    ],
    ['Single values', report.values],
    ['Asked for by', report.askedBy],
    ['Program', report.program],
  ]);
}

/** By currency: what was delivered, how much of it the ERP holds so, and the rest. */
function amounts(report: ReportContent): string {
  const currencies = [...new Set(report.totals.flatMap(({ currency }) => currency ?? []))];
  const present = states.filter((state) =>
    report.totals.some((one) => one.state === state && one.currency !== null && one.documents > 0),
  );
  return table(
    ['Currency', 'Delivered', ...present],
    currencies.map((currency) => [
      currency,
      amountOfStates(report, currency),
      ...present.map((state) => amountOfStates(report, currency, [state])),
    ]),
    'Nothing that was compared has an amount.',
  );
}

function documents(report: ReportContent): string {
  const kinds = [...new Set(report.totals.map(({ kind }) => kind))];
  const present = states.filter((state) => documentsIn(report, state) > 0);
  const count = (kind: string, state?: string) =>
    report.totals
      .filter((one) => one.kind === kind && (state === undefined || one.state === state))
      .reduce((sum, one) => sum + one.documents, 0);
  return table(
    ['Kind', 'Compared', ...present],
    kinds.map((kind) => [kind, count(kind), ...present.map((state) => count(kind, state))]),
    'Nothing was delivered yet.',
  );
}

function differences(report: ReportContent): string {
  const rows = report.differences.map((one): Cell[] => [
    one.finding,
    one.kind,
    one.reference,
    one.field,
    one.expected,
    one.held,
    [one.changedBy, one.changedAt].filter(Boolean).join(', '),
    one.reason,
    one.key,
  ]);
  const titles = [
    'Finding',
    'Kind',
    'In the ERP as',
    'Field',
    'Delivered',
    'The ERP holds',
    'Changed by',
    'Why',
    'Key',
  ];
  const more = report.differencesOmitted > 0 ? `<p>${report.differencesOmitted} more are not listed.</p>` : '';
  return `${table(titles, rows, 'None.')}${more}`;
}

function notCompared(report: ReportContent): string {
  if (report.notCompared.length === 0) return '';
  const rows = report.notCompared.map(({ kind, field, reason, documents: of }) => [kind, field, reason, of]);
  return `<h2>Not compared</h2>\n${table(['Kind', 'What', 'Why', 'Documents'], rows, '')}`;
}

function list(rows: readonly (readonly [string, Cell])[]): string {
  const lines = rows.map(([name, value]) => `<dt>${escapedHtml(name)}</dt><dd>${cell(value)}</dd>`);
  return `<dl>\n${lines.join('\n')}\n</dl>`;
}

function table(titles: readonly string[], rows: readonly (readonly Cell[])[], none: string): string {
  if (rows.length === 0) return `<p>${escapedHtml(none)}</p>`;
  const head = titles.map((title) => `<th>${escapedHtml(title)}</th>`).join('');
  const lines = rows.map((row) => `<tr>${row.map((value) => `<td>${cell(value)}</td>`).join('')}</tr>`);
  return `<table>\n<thead><tr>${head}</tr></thead>\n<tbody>\n${lines.join('\n')}\n</tbody>\n</table>`;
}

function cell(value: Cell): string {
  return value === null || value === undefined || value === '' ? '–' : escapedHtml(String(value));
}

const style = `
body { font: 10pt/1.4 system-ui, sans-serif; color: #111; background: #fff; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 18pt; margin: 0 0 .5rem; }
h2 { font-size: 12pt; margin: 1.5rem 0 .5rem; }
.statement { font-size: 12pt; border-left: 4px solid #111; padding-left: .75rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; }
dt { font-weight: 600; }
dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
thead { display: table-header-group; }
tr { break-inside: avoid; }
th, td { border: 1px solid #888; padding: .2rem .4rem; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
th { background: #eee; }
@media print { body { margin: 0; max-width: none; } @page { margin: 15mm; } }
`;
