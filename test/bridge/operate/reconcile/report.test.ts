/** A signed report proves what it says: each changed byte and each other key is found. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type ReportContent, statementOf } from '#bridge/operate/reconcile/read-report.ts';
import { isReportSigned, reportFiles, reportPublicKey } from '#bridge/operate/reconcile/report-files.ts';
import { createSecretBox } from '#platform/secrets.ts';

const secrets = createSecretBox(Buffer.alloc(32, 7));
const pem = reportPublicKey(secrets);

const report: ReportContent = {
  format: 'sourcing-bridge report 2',
  number: 7,
  flow: 'erp <1>',
  source: 'main',
  connector: 'memory',
  askedBy: 'ann',
  started: '2030-01-01T00:00:00.000000Z',
  ended: '2030-01-01T00:01:00.000000Z',
  events: null,
  documents: 3,
  values: 12,
  totals: [
    { kind: 'award', currency: 'EUR', state: 'as delivered', documents: 2, amount: '0.3' },
    { kind: 'award', currency: 'EUR', state: 'changed', documents: 1, amount: '123456789012345678901.25' },
  ],
  differences: [
    {
      kind: 'award',
      key: 'e1/s1',
      finding: 'changed',
      reference: 'PO-1',
      field: 'lines[<M8> & "ß"].price',
      expected: '1.5',
      held: '<script>alert(1)</script>',
      changedBy: 'bob',
      changedAt: '2030-01-01T00:00:30.000000Z',
      reason: null,
    },
  ],
  differencesOmitted: 4,
  notCompared: [{ kind: 'award', field: 'attachments', reason: 'the connector cannot compare it', documents: 3 }],
};

test('a report is signed by a key that the same master key always gives, and another one never', () => {
  const { json, signature } = reportFiles(report, secrets);
  expect(JSON.parse(json)).toEqual(report);
  expect(isReportSigned(Buffer.from(json), signature, pem)).toBe(true);
  expect(reportPublicKey(createSecretBox(Buffer.alloc(32, 7), [Buffer.alloc(32, 8)]))).toBe(pem);
  const other = reportPublicKey(createSecretBox(Buffer.alloc(32, 8)));
  expect(isReportSigned(Buffer.from(json), signature, other)).toBe(false);
});

test('with one bit of any byte of the report or of its signature changed, it is not valid', () => {
  const { json, signature } = reportFiles(report, secrets);
  const bytes = Buffer.from(json);
  const isValid = () => isReportSigned(bytes, signature, pem);
  for (const file of [bytes, signature])
    for (let at = 0; at < file.length; at += 1) {
      const before = file[at] ?? 0;
      file[at] = before ^ (1 << (at % 8));
      expect(isValid(), `byte ${at}`).toBe(false);
      file[at] = before;
    }
  expect(isValid()).toBe(true);
  for (const cut of [bytes.subarray(1), bytes.subarray(0, -1), Buffer.concat([bytes, bytes.subarray(-1)])])
    expect(isReportSigned(cut, signature, pem)).toBe(false);
  expect(isReportSigned(bytes, Buffer.alloc(0), pem)).toBe(false);
});

test('what is no public Ed25519 key is refused by name', () => {
  const { json, signature } = reportFiles(report, secrets);
  expect(() => isReportSigned(Buffer.from(json), signature, 'no key')).toThrow(/must be a public Ed25519 key/);
});

test('the page shows the figures and what was found, escaped, and loads nothing', () => {
  const { page } = reportFiles(report, secrets);
  expect(page).toContain('ERP of the flow erp &lt;1&gt; held 2 of 3 delivered documents as they were delivered.');
  expect(page).toContain('<td>changed</td><td>1</td><td>123456789012345678901.25</td><td>EUR</td>');
  expect(page).toContain('lines[&lt;M8&gt; &amp; &quot;ß&quot;].price');
  expect(page).toContain('4 more are not listed.');
  expect(page).not.toMatch(/https?:|<script|<img|<link|url\(/);
});

test('the report of docs/prove-it.md is valid, and the page says what verify-report says of it', async () => {
  const docs = join(import.meta.dirname, '../../../../docs');
  const example = (name: string) => readFile(join(docs, 'examples', `tryton-report${name}`));
  const json = await example('.json');
  const key = (await example('-key.pem')).toString('utf8');
  expect(isReportSigned(json, await example('.json.sig'), key)).toBe(true);
  const shown = JSON.parse(json.toString('utf8')) as ReportContent;
  expect(await readFile(join(docs, 'prove-it.md'), 'utf8')).toContain(statementOf(shown));
});
