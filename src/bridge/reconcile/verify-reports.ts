/**
 * Checks reports from their files alone: the text, the signature, the key, and how each follows the one before it.
 *
 * Example: report-1.json and report-3.json are given, with the fingerprint of the key.
 *   report 1   fine; it is the first
 *   report 3   fine, and its predecessor is not among the files: nothing is said about what was between
 */
import { errorText } from '#platform/errors.ts';
import { type ReportContent, readReport, reportHash, type SignedReport } from './report-form.ts';
import { isSigned, keyFingerprint } from './report-signature.ts';

export interface ReportFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

export interface VerifiedFile {
  readonly name: string;
  /** Why the file proves nothing; empty when it is what was signed. */
  readonly problems: readonly string[];
  /** Undefined where the file is no report. */
  readonly signed: SignedReport | undefined;
  readonly hash: string;
  /** Of the key that the file names. */
  readonly fingerprint: string | undefined;
  /** `missing`: the report before it is not among the files. */
  readonly predecessor: 'first' | 'follows' | 'missing' | undefined;
}

/** Checks each file, and each against the others. `fingerprint` is that of the key that must have signed them. */
export function verifyReports(files: readonly ReportFile[], fingerprint: string | undefined): VerifiedFile[] {
  const read = files.map(readFile);
  return read.map(({ name, hash, signed, error }) => {
    if (!signed) return { name, hash, signed, problems: [error], fingerprint: undefined, predecessor: undefined };
    const found = keyFingerprint(Buffer.from(signed.signature.publicKey, 'base64url'));
    const others = read.flatMap((one) =>
      one.signed && one.hash !== hash ? [{ name: one.name, hash: one.hash, report: one.signed.report }] : [],
    );
    const problems = [
      ...(isSigned(signed) ? [] : ['its signature is not of this text: the file, or its signature, was changed']),
      ...(fingerprint === undefined || found === fingerprint
        ? []
        : [`another key has signed it: ${found}, and not ${fingerprint}`]),
      ...problemsOfChain(signed.report, others),
    ];
    return { name, hash, signed, problems, fingerprint: found, predecessor: predecessorOf(signed.report, others) };
  });
}

interface OtherReport {
  readonly name: string;
  readonly hash: string;
  readonly report: ReportContent;
}

function problemsOfChain({ number, previous }: ReportContent, others: readonly OtherReport[]): string[] {
  return others.flatMap(({ name, hash, report }) => {
    if (report.number === number) return [`${name} is another report with the number ${number}`];
    return previous && report.number === previous.number && hash !== previous.hash
      ? [`it follows a report ${previous.number} with the SHA-256 ${previous.hash}, which ${name} is not (${hash})`]
      : [];
  });
}

function predecessorOf({ previous }: ReportContent, others: readonly OtherReport[]): VerifiedFile['predecessor'] {
  if (previous === null) return 'first';
  return others.some(({ hash }) => hash === previous.hash) ? 'follows' : 'missing';
}

function readFile({ name, bytes }: ReportFile): {
  name: string;
  hash: string;
  signed: SignedReport | undefined;
  error: string;
} {
  const hash = reportHash(bytes);
  try {
    return { name, hash, signed: readReport(bytes), error: '' };
  } catch (error) {
    return { name, hash, signed: undefined, error: errorText(error) };
  }
}
