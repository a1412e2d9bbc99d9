/** `verify-report`: checks a signed report from its files alone, without a bridge, a database or a configuration. */
import { readFile } from 'node:fs/promises';
import { type ReportContent, statementOf } from '#bridge/operate/reconcile/read-report.ts';
import { isReportSigned } from '#bridge/operate/reconcile/report-files.ts';
import { AppError, errorText } from '#platform/errors.ts';

export interface VerifyReportOptions {
  key?: string;
}

/** Exit code 1 when the file is not what was signed. Throws an AppError `invalid` for a file that cannot be read. */
export async function runVerifyReport(file: string, { key }: VerifyReportOptions): Promise<number> {
  if (key === undefined)
    throw new AppError(
      'invalid',
      'Name the public key that the operator of the bridge has given you: --key <file>. Without it nobody can say who has signed the report.',
    );
  const json = await readGiven(file);
  const signature = await readGiven(`${file}.sig`);
  if (!isReportSigned(json, signature, (await readGiven(key)).toString('utf8'))) {
    process.stdout.write(`${file}: NOT VALID: it was changed, or another key has signed it.\n`);
    return 1;
  }
  const report = JSON.parse(json.toString('utf8')) as ReportContent;
  process.stdout.write(`${file}: valid, report ${report.number}\n  ${statementOf(report)}\n`);
  return 0;
}

async function readGiven(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (cause) {
    throw new AppError('invalid', `The file ${file} cannot be read: ${errorText(cause)}.`, { cause });
  }
}
