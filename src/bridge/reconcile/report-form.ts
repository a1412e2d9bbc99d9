/**
 * The report of a comparison as it is stored, shown and given to an auditor: its form, its one text, and what must hold
 * in it. Nothing here needs a database or a configuration.
 *
 * A report has exactly one text: JSON with two spaces, the members in the order of the schema, and a line end. The
 * signature covers the text of the member `report` alone, as `jq .report FILE` prints it; the hash by which the next
 * report names this one is the SHA-256 of the whole file. So a changed byte anywhere is found.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { Decimal } from '#contract/decimal.ts';
import { AppError } from '#platform/errors.ts';
import { findingNames } from './finding-names.ts';

/** The most differences that a report lists one by one; all of them are counted. */
export const differencesMax = 10_000;
/** No report is longer. */
export const reportBytesMax = 64 * 1024 * 1024;

const time = z
  .string()
  .regex(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$/, 'must be a time in UTC with microseconds');
const count = z.int().min(0);
const hash = z.string().regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 in hexadecimal');
const amount = z.string().regex(/^-?\d+(\.\d+)?$/, 'must be a decimal');
const text = z.string();
const base64url = (bytes: number) =>
  z.string().refine((value) => Buffer.from(value, 'base64url').length === bytes && isExact(value), {
    error: `must be ${bytes} bytes in base64url`,
  });

/** What a document, or a value of it, was found to be; see `findingNames`. */
const stateName = z.enum(['as delivered', ...findingNames]);

const total = z.strictObject({
  kind: text,
  currency: text.nullable().describe('ISO 4217; null where documents of this kind have no amount'),
  state: stateName,
  documents: count,
  amount: amount.nullable().describe('What was delivered with these documents, exact; null without a currency'),
});

const difference = z.strictObject({
  kind: text,
  key: text,
  finding: z.enum(findingNames),
  reference: text.nullable().describe("The ERP's"),
  field: text.nullable().describe('Null where the finding is about the whole document'),
  expected: text.nullable().describe('What was delivered'),
  held: text.nullable().describe('What the ERP holds'),
  changedBy: text.nullable(),
  changedAt: text.nullable(),
  reason: text.nullable(),
});

const content = z.strictObject({
  format: z.literal('sourcing-bridge report 1'),
  number: z.int().min(1).describe('Counted over all flows of the bridge, without a gap'),
  flow: text,
  source: text,
  connector: text,
  program: text.describe('The version that has compared'),
  askedBy: text,
  started: time,
  ended: time,
  events: z.array(text).nullable().describe('Only the documents of these events were compared; null: all of the flow'),
  documents: count.describe('Compared; the totals are these documents, each once'),
  values: count.describe('Single values that were compared'),
  totals: z.array(total),
  differences: z.array(difference).max(differencesMax),
  differencesOmitted: count.describe('How many more there are than the list has'),
  notCompared: z
    .array(z.strictObject({ kind: text, field: text.nullable(), reason: text.nullable(), documents: count }))
    .describe('What could not be compared, and of how many documents'),
  previous: z
    .strictObject({ number: z.int().min(1), hash })
    .nullable()
    .describe('The report before this one, and the SHA-256 of its file; null in the first'),
});

const signature = z.strictObject({
  algorithm: z.literal('Ed25519'),
  publicKey: base64url(32),
  value: base64url(64),
});

const reportForm = z.strictObject({ report: content, signature });

export type ReportContent = z.infer<typeof content>;
export type SignedReport = z.infer<typeof reportForm>;

/** The text that is signed: a line end stands at its end, as a program for JSON prints it. */
export function signedText(report: ReportContent): string {
  return `${JSON.stringify(report, null, 2)}\n`;
}

/** The text of the file. */
export function reportText(signed: SignedReport): string {
  return `${JSON.stringify(signed, null, 2)}\n`;
}

/** The hash by which the next report names this one. */
export function reportHash(file: string | Uint8Array): string {
  return createHash('sha256').update(file).digest('hex');
}

/**
 * Reads a report's file. Throws an AppError `invalid` that says what is wrong with it: not the exact text of a report, or
 * counts that contradict each other. The signature is not looked at.
 */
export function readReport(file: Uint8Array): SignedReport {
  if (file.length > reportBytesMax) throw invalid(`it is longer than ${reportBytesMax} bytes`);
  let parsed: unknown;
  let found: string;
  try {
    found = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(file);
    parsed = JSON.parse(found);
  } catch {
    throw invalid('it is not JSON in UTF-8');
  }
  const form = reportForm.safeParse(parsed);
  if (!form.success) {
    const [issue] = form.error.issues;
    throw invalid(`${issue?.path.map(String).join('.') || 'the whole'}: ${issue?.message}`);
  }
  if (reportText(form.data) !== found)
    throw invalid('its text is not the one that was written: spaces, order or spelling were changed');
  const contradiction = contradictionIn(form.data.report);
  if (contradiction !== undefined) throw invalid(contradiction);
  return form.data;
}

/** How many documents are in this state. */
export function documentsIn({ totals }: ReportContent, ...states: readonly z.infer<typeof stateName>[]): number {
  return totals.filter(({ state }) => states.includes(state)).reduce((sum, { documents }) => sum + documents, 0);
}

/** The amount of the documents of a currency in these states, exact. */
export function amountOfStates({ totals }: ReportContent, currency: string, states?: readonly string[]): string {
  return totals
    .filter((one) => one.currency === currency && (states === undefined || states.includes(one.state)))
    .reduce((sum, one) => sum.plus(one.amount ?? 0), new Exact(0))
    .toFixed();
}

/** What the report says in one sentence or two, for people. */
export function statementOf(report: ReportContent): string {
  const { documents, flow, ended } = report;
  const day = `${ended.slice(0, 10)} ${ended.slice(11, 16)} UTC`;
  const same = documentsIn(report, 'as delivered');
  const others = findingNames
    .map((name) => ({ name, count: documentsIn(report, name) }))
    .filter(({ count: number }) => number > 0)
    .map(({ name, count: number }) => `${number} ${name}`);
  const rest = others.length === 0 ? 'Nothing else was found.' : `The others: ${others.join(', ')}.`;
  return `On ${day} the ERP of the flow ${flow} held ${same} of ${documents} delivered documents as they were delivered. ${rest}`;
}

/** Sums of any length stay exact. */
const Exact = Decimal.clone({ precision: 1_000, maxE: 900, minE: -900 });

/** Why these figures cannot be those of one comparison; undefined when they can. */
function contradictionIn(report: ReportContent): string | undefined {
  const { number, previous, documents, totals, differences, differencesOmitted } = report;
  if ((previous?.number ?? 0) !== number - 1) return `report ${number} does not name report ${number - 1} before it`;
  const counted = totals.reduce((sum, one) => sum + one.documents, 0);
  if (counted !== documents) return `its totals have ${counted} documents, and it says that it compared ${documents}`;
  if (totals.some(({ currency, amount: sum }) => (currency === null) !== (sum === null)))
    return 'an amount in its totals has no currency, or a currency no amount';
  if (differencesOmitted > 0) return undefined;
  for (const name of findingNames) {
    if (name === 'not compared') continue;
    const listed = new Set(
      differences.filter(({ finding }) => finding === name).map(({ kind, key }) => `${kind}/${key}`),
    ).size;
    const inTotals = documentsIn(report, name);
    if (listed !== inTotals) return `it lists ${listed} documents as ${name}, and its totals have ${inTotals}`;
  }
  return undefined;
}

function isExact(value: string): boolean {
  return Buffer.from(value, 'base64url').toString('base64url') === value;
}

function invalid(what: string): AppError {
  return new AppError('invalid', `The file is no report, or was changed: ${what}.`);
}
