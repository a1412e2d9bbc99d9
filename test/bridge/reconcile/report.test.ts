/** A signed report proves what it says from its file alone: every changed byte, another key and a broken chain are found. */
import { createPublicKey, verify } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type ReportContent, readReport, reportHash, reportText, statementOf } from '#bridge/reconcile/report-form.ts';
import { reportPage } from '#bridge/reconcile/report-page.ts';
import {
  createReportKey,
  fingerprintOfPem,
  keyFingerprint,
  publicKeyPem,
  signReport,
} from '#bridge/reconcile/report-signature.ts';
import { verifyReports } from '#bridge/reconcile/verify-reports.ts';
import { aReport } from './a-report.ts';

const key = createReportKey();
const fingerprint = keyFingerprint(key.publicKey);
const fileOf = (report: ReportContent, name = `report-${report.number}.json`, signer = key) => ({
  name,
  bytes: Buffer.from(reportText(signReport(report, signer)), 'utf8'),
});
const problemsOf = (bytes: Uint8Array, named = fingerprint) =>
  verifyReports([{ name: 'report.json', bytes }], named)[0]?.problems;
/** The report after this file, with other figures. */
const after = ({ bytes }: { bytes: Uint8Array }, number: number) =>
  fileOf(aReport({ number, values: number, previous: { number: number - 1, hash: reportHash(bytes) } }));

describe('a report', () => {
  test('is valid as it was written, and any program can check its signature', () => {
    const { bytes } = fileOf(aReport());
    expect(problemsOf(bytes)).toEqual([]);
    const { report, signature } = JSON.parse(bytes.toString('utf8'));
    const signed = Buffer.from(`${JSON.stringify(report, null, 2)}\n`);
    const pem = createPublicKey(publicKeyPem(key.publicKey));
    expect(verify(null, signed, pem, Buffer.from(signature.value, 'base64url'))).toBe(true);
    expect(fingerprintOfPem(publicKeyPem(key.publicKey))).toBe(fingerprint);
  });

  test('is not valid with any byte changed, taken out or put in', () => {
    const { bytes } = fileOf(aReport());
    const place = fc.integer({ min: 0, max: bytes.length - 1 });
    const byte = fc.integer({ min: 0, max: 255 });
    fc.assert(
      fc.property(place, byte, fc.constantFrom('changed', 'out', 'in'), (at, value, how) => {
        fc.pre(how !== 'changed' || bytes[at] !== value);
        const middle = how === 'out' ? Buffer.alloc(0) : Buffer.of(value);
        const tampered = Buffer.concat([bytes.subarray(0, at), middle, bytes.subarray(how === 'in' ? at : at + 1)]);
        // A byte beside its like, put in or taken out, may be the same file.
        fc.pre(!tampered.equals(bytes));
        // Also with the key that the file names: it must not say that another one has signed what nobody has.
        expect(problemsOf(tampered)).not.toEqual([]);
        expect(verifyReports([{ name: 'report.json', bytes: tampered }], undefined)[0]?.problems).not.toEqual([]);
      }),
      { numRuns: 3_000 },
    );
  });

  test('is not valid with one bit of any byte changed', () => {
    const { bytes } = fileOf(aReport());
    for (let at = 0; at < bytes.length; at += 1) {
      const tampered = Buffer.from(bytes);
      tampered[at] = (tampered[at] ?? 0) ^ (1 << (at % 8));
      expect(
        verifyReports([{ name: 'report.json', bytes: tampered }], undefined)[0]?.problems,
        `byte ${at}`,
      ).not.toEqual([]);
    }
  });

  test('is not valid when it was signed anew with another key, once the right one is named', () => {
    const other = createReportKey();
    const { bytes } = fileOf(aReport({ documents: 3 }), 'report.json', other);
    expect(problemsOf(bytes)).toEqual([
      `another key has signed it: ${keyFingerprint(other.publicKey)}, and not ${fingerprint}`,
    ]);
    // Without a named key the file can only be held against the key in it.
    expect(verifyReports([{ name: 'report.json', bytes }], undefined)[0]).toMatchObject({
      problems: [],
      fingerprint: keyFingerprint(other.publicKey),
    });
  });

  test.each<[string, Partial<ReportContent>, RegExp]>([
    ['totals of fewer documents', { documents: 4 }, /totals have 3 documents, and it says that it compared 4/],
    ['a difference that the totals do not have', { differences: [] }, /lists 0 documents as changed, .* have 1/],
    ['no predecessor', { number: 2 }, /does not name report 1/],
    [
      'an amount without a currency',
      { totals: [{ kind: 'award', currency: null, state: 'as delivered', documents: 3, amount: '1' }] },
      /has no currency/,
    ],
    [
      'a binary float as amount',
      { totals: [{ kind: 'award', currency: 'EUR', state: 'changed', documents: 3, amount: '1e3' }] },
      /decimal/,
    ],
  ])('with %s is refused, although it is signed', (_name, changes, words) => {
    expect(() => readReport(fileOf(aReport(changes)).bytes)).toThrow(words);
  });

  test.each([
    ['another order', (text: string) => text.replace(/("flow": "erp",)\s+("source": "main",)/, '$2\n    $1')],
    ['a member twice', (text: string) => text.replace('"flow": "erp"', '"flow": "x",\n    "flow": "erp"')],
    ['another spelling', (text: string) => text.replace('"erp"', String.raw`"\u0065rp"`)],
    ['an unknown member', (text: string) => text.replace('"flow": "erp"', '"flow": "erp",\n    "note": "fine"')],
    ['no line end', (text: string) => text.trimEnd()],
    ['a mark before it', (text: string) => `\ufeff${text}`],
  ])('with the same figures in %s is refused', (_name, change) => {
    const text = fileOf(aReport()).bytes.toString('utf8');
    expect(change(text)).not.toBe(text);
    expect(problemsOf(Buffer.from(change(text), 'utf8'))).toEqual([expect.stringContaining('was changed')]);
  });
});

describe('a chain', () => {
  const first = fileOf(aReport());
  const second = after(first, 2);
  const third = after(second, 3);
  const verified = (...files: { name: string; bytes: Uint8Array }[]) =>
    verifyReports(files, fingerprint).map(({ problems, predecessor }) => ({ problems, predecessor }));

  test('of all reports is whole, in any order of the files', () => {
    expect(verified(third, first, second)).toEqual([
      { problems: [], predecessor: 'follows' },
      { problems: [], predecessor: 'first' },
      { problems: [], predecessor: 'follows' },
    ]);
  });

  test('says which predecessor was not given', () => {
    expect(verified(first, third)).toEqual([
      { problems: [], predecessor: 'first' },
      { problems: [], predecessor: 'missing' },
    ]);
  });

  test('is broken by another report in the place of one, also when the right key has signed it', () => {
    const exchanged = fileOf(aReport({ values: 99 }));
    expect(verified(exchanged, second)[1]?.problems).toEqual([
      expect.stringContaining(`it follows a report 1 with the SHA-256 ${reportHash(first.bytes)}`),
    ]);
    // A database that was restored has given the number twice.
    expect(verified(first, { ...exchanged, name: 'other.json' })[0]?.problems).toEqual([
      'other.json is another report with the number 1',
    ]);
  });
});

test('the page shows the figures and what was found, escaped, and loads nothing', () => {
  const signed = signReport(aReport(), key);
  const page = reportPage(signed);
  expect(page).toContain('held 2 of 3 delivered documents as they were delivered. The others: 1 changed.');
  expect(page).toContain('<td>EUR</td><td>12.8</td><td>0.3</td><td>12.5</td>');
  expect(page).toContain('lines[&lt;M8&gt; &amp; &quot;ß&quot;].price');
  expect(page).toContain(reportHash(reportText(signed)));
  expect(page).toContain(fingerprint);
  expect(page).not.toMatch(/https?:|<script|<img|<link|url\(/);
});

test('amounts of any length add up exactly', () => {
  const totals = (['as delivered', 'missing'] as const).map((state) => ({
    kind: 'award',
    currency: 'EUR',
    state,
    documents: 1,
    amount: state === 'missing' ? '0.0000000001' : '123456789012345678901234567890123456789.10',
  }));
  const differences = aReport().differences.map((one) => ({ ...one, finding: 'missing' as const }));
  const page = reportPage(signReport(aReport({ documents: 2, totals, differences }), key));
  expect(page).toContain('<td>123456789012345678901234567890123456789.1000000001</td>');
});

test('the reports of docs/prove-it.md are valid, and the page shows what verify-report says of them', async () => {
  const docs = join(import.meta.dirname, '../../../docs');
  const example = (name: string) => readFile(join(docs, 'examples', `tryton-report-${name}`));
  const named = fingerprintOfPem((await example('key.pem')).toString('utf8'));
  const files = await Promise.all(['1.json', '2.json'].map(async (name) => ({ name, bytes: await example(name) })));
  const verified = verifyReports(files, named);
  expect(verified.map(({ problems, predecessor }) => ({ problems, predecessor }))).toEqual([
    { problems: [], predecessor: 'first' },
    { problems: [], predecessor: 'follows' },
  ]);
  const page = await readFile(join(docs, 'prove-it.md'), 'utf8');
  for (const { hash, signed } of verified) {
    expect(page).toContain(hash);
    expect(page).toContain(signed && statementOf(signed.report));
  }
  expect(page).toContain(named);
  expect((await example('2.html')).toString('utf8')).toContain(verified[1]?.hash);
});
