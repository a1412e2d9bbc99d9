/** `bridge report`: the signed reports of comparisons, and the key that signs them. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readReport, statementOf } from '#bridge/reconcile/report-form.ts';
import { reportPage } from '#bridge/reconcile/report-page.ts';
import { keyFingerprint, publicKeyPem } from '#bridge/reconcile/report-signature.ts';
import { listReports, readReportPublicKey, readStoredReport } from '#bridge/reconcile/report-store.ts';
import { timestampNow } from '#platform/clock.ts';
import { replaceFile } from '#platform/durable-file.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { type BridgeCommand, type BridgeCommandOptions, findFlow, withBridge } from '../bridge-command.ts';
import { print, shortTime, tableOf } from '../output.ts';

export interface ReportOptions extends BridgeCommandOptions {
  flow?: string;
  list?: boolean;
  limit: number;
  publicKey?: boolean;
  out?: string;
}

/** Prints the report, the list or the public key. Throws an AppError `invalid` where there is no such report. */
export function runReport(options: ReportOptions, numberText: string | undefined): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      if (options.flow !== undefined) findFlow(command.settings, options.flow);
      if (options.publicKey) return printKey(command, options);
      if (options.list) return printList(command, options);
      return printReport(command, options, numberOf(numberText));
    },
    { withoutSecrets: true },
  );
}

async function printKey({ database, installation, clock }: BridgeCommand, options: ReportOptions): Promise<number> {
  const key = await readReportPublicKey(database, installation.secrets, timestampNow(clock));
  const [fingerprint, pem] = [keyFingerprint(key), publicKeyPem(key)];
  print(options, { fingerprint, pem }, () => `${pem}Fingerprint (SHA-256): ${fingerprint}`);
  return 0;
}

async function printList({ database }: BridgeCommand, options: ReportOptions): Promise<number> {
  const reports = await listReports(database, options);
  print(options, { reports }, () =>
    tableOf(
      ['number', 'flow', 'made', 'SHA-256', 'kept'],
      reports.map(({ number, flow, made, hash, isKept }) => [number, flow, shortTime(made), hash, isKept]),
      'No comparison has ended yet: bridge reconcile makes one.',
    ),
  );
  return 0;
}

async function printReport(
  { database }: BridgeCommand,
  options: ReportOptions,
  number: number | undefined,
): Promise<number> {
  const stored = await readStoredReport(database, { number, flow: options.flow });
  if (!stored)
    throw new AppError('invalid', 'There is no such report. bridge report --list shows those that there are.');
  if (stored.body === null)
    throw new AppError(
      'invalid',
      `Report ${stored.number} is no longer kept, only its SHA-256: ${stored.hash} (bridge.attempt_days).`,
    );
  const signed = readReport(Buffer.from(stored.body, 'utf8'));
  const files = options.out === undefined ? [] : await writeFiles(options.out, stored.number, stored.body, signed);
  print(options, signed, () =>
    [
      `Report ${stored.number} of ${stored.flow}, made ${shortTime(stored.made)}, SHA-256 ${stored.hash}`,
      statementOf(signed.report),
      ...(files.length > 0
        ? [`Written: ${files.join(', ')}`]
        : ['--out <folder> writes it as JSON and as a page to print.']),
    ].join('\n'),
  );
  return 0;
}

async function writeFiles(
  folder: string,
  number: number,
  body: string,
  signed: Parameters<typeof reportPage>[0],
): Promise<string[]> {
  const files = [
    { file: join(folder, `report-${number}.json`), text: body },
    { file: join(folder, `report-${number}.html`), text: reportPage(signed) },
  ];
  try {
    await mkdir(folder, { recursive: true });
    for (const { file, text } of files) await replaceFile(file, text, 0o600);
  } catch (cause) {
    throw new AppError('invalid', `The report cannot be written to ${folder}: ${errorText(cause)}.`, { cause });
  }
  return files.map(({ file }) => file);
}

function numberOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,14}$/.test(text))
    throw new AppError('invalid', `"${text}" is no number of a report; bridge report --list shows them.`);
  return Number(text);
}
