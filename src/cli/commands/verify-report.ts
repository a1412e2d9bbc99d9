/** `verify-report`: checks signed reports from their files alone, without a bridge, a database or a configuration. */
import { open, readFile } from 'node:fs/promises';
import { reportBytesMax, statementOf } from '#bridge/reconcile/report-form.ts';
import { reportPage } from '#bridge/reconcile/report-page.ts';
import { fingerprintOfPem } from '#bridge/reconcile/report-signature.ts';
import { type VerifiedFile, verifyReports } from '#bridge/reconcile/verify-reports.ts';
import { replaceFile } from '#platform/durable-file.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { print } from '../output.ts';

export interface VerifyReportOptions {
  key?: string;
  page?: string;
  json?: boolean;
}

/** Exit code 1 when a file is not what was signed. Throws an AppError `invalid` for a file that cannot be read. */
export async function runVerifyReport(files: readonly string[], options: VerifyReportOptions): Promise<number> {
  if (options.page !== undefined && files.length !== 1)
    throw new AppError('invalid', '--page makes the page of one report: name one file.');
  const fingerprint = options.key === undefined ? undefined : await fingerprintFrom(options.key);
  const given = [];
  for (const name of files) given.push({ name, bytes: await readBounded(name) });
  const verified = verifyReports(given, fingerprint);
  const [first] = verified;
  if (options.page !== undefined && first?.signed && first.problems.length === 0)
    await replaceFile(options.page, reportPage(first.signed), 0o600);
  const reports = verified.map(({ signed, ...rest }) => ({ ...rest, report: signed?.report }));
  print(options, { keyChecked: fingerprint !== undefined, reports }, () =>
    verified.map((one) => textOf(one, fingerprint !== undefined)).join('\n\n'),
  );
  return verified.some(({ problems }) => problems.length > 0) ? 1 : 0;
}

function textOf({ name, problems, signed, hash, fingerprint, predecessor }: VerifiedFile, keyChecked: boolean): string {
  if (problems.length > 0 || !signed)
    return [`${name}: NOT VALID`, ...problems.map((problem) => `  ${problem}`)].join('\n');
  const { number, previous } = signed.report;
  const chain = {
    first: 'It is the first report of its bridge.',
    follows: `It follows report ${previous?.number}, which is among the files.`,
    missing: `Its predecessor, report ${previous?.number} with the SHA-256 ${previous?.hash}, is not among the files: whether that one exists was not checked.`,
  }[predecessor ?? 'missing'];
  return [
    `${name}: valid, report ${number}`,
    `  ${statementOf(signed.report)}`,
    `  ${chain}`,
    `  SHA-256 ${hash}`,
    keyChecked
      ? `  Signed with the key that was named: ${fingerprint}`
      : `  Signed with the key ${fingerprint}. Anybody can make a key: compare it with the one that the operator has given you, or name that one with --key.`,
  ].join('\n');
}

/** A fingerprint as it stands, or that of the key in a PEM file. */
async function fingerprintFrom(key: string): Promise<string> {
  const digits = key.replaceAll(':', '').toLowerCase();
  if (/^[0-9a-f]{64}$/.test(digits)) return digits;
  return fingerprintOfPem((await readBounded(key)).toString('utf8'));
}

async function readBounded(file: string): Promise<Buffer> {
  try {
    const handle = await open(file);
    try {
      if ((await handle.stat()).size > reportBytesMax) throw new Error('it is too long for a report');
      return await readFile(handle);
    } finally {
      await handle.close();
    }
  } catch (cause) {
    throw new AppError('invalid', `The file ${file} cannot be read: ${errorText(cause)}.`, { cause });
  }
}
