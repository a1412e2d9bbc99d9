/** Writes down what became of a submission that the source has processed, supplier by supplier. */
import { timestampNow } from '#platform/clock.ts';
import { withChange } from './compare-supplier.ts';
import type { IntakeWork } from './intake-deps.ts';
import { readSubmitted, type SettledRecord, settleRecords } from './record-store.ts';
import { endSubmission, type OpenSubmission } from './submission-store.ts';

interface Processed {
  /** By external id. */
  readonly state_errors?: Readonly<Record<string, unknown>> | null | undefined;
  readonly change_warnings?: readonly unknown[] | null | undefined;
}

/** Settles all records of the submission in one transaction. Rejects with LeaseLost. */
export async function settleSubmission(work: IntakeWork, submission: OpenSubmission, answer: Processed): Promise<void> {
  const { intake, lease, clock, log } = work;
  const errors = new Map(Object.entries(answer.state_errors ?? {}));
  const refused: string[] = [];
  await lease.transaction(async (tx) => {
    const now = timestampNow(clock);
    const records = await readSubmitted(tx, intake.name, submission.id);
    const keys = new Set(records.map(({ key }) => key));
    // Errors under another name than an external id concern the submission as a whole: no supplier is left out of them.
    const ofAll = [...errors].filter(([key]) => !keys.has(key)).map(([key, error]) => `${key}: ${textOf(error)}`);
    const settled = records.map((record): SettledRecord => {
      const error = errors.get(record.key);
      const { erpKey, change } = record;
      if (error !== undefined || ofAll.length > 0) {
        const message = error === undefined ? ofAll.join('; ') : textOf(error);
        refused.push(`${record.key}: ${message}`);
        return { erpKey, outcome: 'refused', message };
      }
      const held = withChange(record.held, change);
      const message = warningOf(record.key, answer.change_warnings ?? []);
      return { erpKey, outcome: 'taken', held, archives: change.archived === true, message };
    });
    await settleRecords(tx, { intake: intake.name, submission: submission.id }, settled, now);
    await endSubmission(tx, submission.id, { state: 'processed', error: null, now });
    work.count('taken', records.length - refused.length);
    work.count('refused', refused.length);
  });
  if (refused.length > 0)
    log.warn(
      { intake: intake.name, submission: submission.uuid, refused: refused.length, first: refused[0] },
      'the service refused suppliers',
    );
}

function textOf(error: unknown): string {
  if (typeof error === 'string') return error;
  if (Array.isArray(error) && error.every((each) => typeof each === 'string')) return error.join('; ');
  return JSON.stringify(error) ?? '';
}

/** The source's warnings that name this supplier. */
function warningOf(key: string, warnings: readonly unknown[]): string | null {
  const own = warnings.filter((warning) => {
    const { header } = (warning ?? {}) as { header?: unknown };
    return typeof header === 'string' && header.endsWith(` ${key}`);
  });
  const texts = own.map((warning) => textOf((warning as { messages?: unknown }).messages ?? warning));
  return texts.length === 0 ? null : texts.join('; ');
}
