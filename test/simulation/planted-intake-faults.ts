/** Faults to plant in intakes of suppliers: each loses a change, sends it twice or for ever, or archives unasked. */
import type { PlantedFault } from './planted-fault.ts';

const faults: readonly Omit<PlantedFault, 'by'>[] = [
  {
    name: 'intake: a POST is made again while the first is still worked on',
    file: 'intake/send-stage.ts',
    from: 'export const lateEffectMs = 10_000;',
    to: 'export const lateEffectMs = 0;',
  },
  {
    name: 'intake: an answer 500 is taken for a refusal',
    file: 'intake/post-submission.ts',
    from: 'error.status < 500 &&',
    to: 'error.status < 600 &&',
  },
  {
    name: 'intake: an answer without an id is taken for a refusal',
    file: 'intake/post-submission.ts',
    from: 'if (error instanceof FetchError && !error.sent)',
    to: 'if (error instanceof FetchError ? !error.sent : !(error instanceof AnswerError))',
  },
  {
    name: 'intake: a change of the ERP while the supplier is submitted is forgotten',
    file: 'intake/record-store.ts',
    from: "due = case when g.outcome = 'released' then coalesce(r.due, $7) else r.due end,",
    to: "due = case when g.outcome = 'released' then coalesce(r.due, $7) end,",
  },
  {
    name: 'intake: the checkpoint is committed before its page',
    file: 'intake/read-stage.ts',
    from: 'const changed = await lease.transaction(async (tx) => {',
    to: `await lease.transaction((tx) => storeProgress(tx, intake.name, { checkpoint: page.checkpoint, unreadable: 0 }));
  const changed = await lease.transaction(async (tx): Promise<number> => {`,
  },
  {
    name: 'intake: nothing is read anew',
    file: 'intake/read-stage.ts',
    from: 'return hours > 0 &&',
    to: 'return hours < 0 &&',
  },
  {
    name: 'intake: a process that lost its lease goes on writing',
    file: 'ledger/leases/lease.ts',
    from: 'if (!held) throw new LeaseLost(name);',
    to: '',
  },
  {
    name: 'intake: what the service has taken counts only when the list shows it',
    file: 'intake/record-store.ts',
    from: 'if (held !== null && heldAt !== null && (observed',
    to: 'if (held !== null && heldAt === null && (observed',
  },
  {
    name: 'intake: an edit of a user at the service is not noticed',
    file: 'intake/record-store.ts',
    from: 'm.content_hash is distinct from k.compared_hash or k.held_at < m.observed',
    to: 'k.held_at < m.observed',
  },
  {
    name: 'intake: an error of one supplier is overlooked',
    file: 'intake/settle-submission.ts',
    from: 'if (error !== undefined || ofAll.length > 0) {',
    to: 'if (ofAll.length > 0) {',
  },
  {
    name: 'intake: a refused submission refuses all its suppliers',
    file: 'intake/send-stage.ts',
    from: 'pack.records.length > 1\n        ? divide(',
    to: 'pack.records.length < 1\n        ? divide(',
  },
  {
    name: 'intake: archives are not counted',
    file: 'intake/guard-archives.ts',
    from: 'if (waiting === 0 ||',
    to: 'if (waiting >= 0 ||',
  },
  {
    name: 'intake: archives in open submissions are not counted',
    file: 'intake/guard-archives.ts',
    from: 'or r.submission is not null and',
    to: 'or r.submission is null and r.submission is not null and',
  },
  {
    name: "intake: a user's edit is set back beside a flow that takes it to the ERP",
    file: 'intake/compare-stage.ts',
    from: 'const setsBack = !(await readHasFlow(sql, intake.source));',
    to: 'const setsBack = (await readHasFlow(sql, intake.source)) !== undefined;',
  },
  {
    name: 'intake: what a flow has written is sent back',
    file: 'intake/compare-supplier.ts',
    from: 'return changedInErp ? comparison.echo === undefined || differ(is, echoed) : comparison.setsBack;',
    to: 'return changedInErp || comparison.setsBack;',
  },
  {
    name: 'intake: an open call of a flow is not waited for',
    file: 'intake/compare-stage.ts',
    from: 'if (echo?.isOpen &&',
    to: 'if (nowMs < 0 && echo?.isOpen &&',
  },
  {
    name: 'intake: a version that was read before a flow wrote is sent',
    file: 'intake/compare-stage.ts',
    from: 'if (echo && echo.deliveredMs >= msOf(row.seen) &&',
    to: 'if (echo && echo.deliveredMs < 0 &&',
  },
  {
    name: 'intake: an echo that was read after the flow noted it is sent back',
    file: 'intake/compare-stage.ts',
    from: 'echo: echo && echo.deliveredMs >= msOf(row.seenBefore)',
    to: 'echo: echo && echo.deliveredMs >= msOf(row.seen)',
  },
];

export const plantedIntakeFaults = faults.map((fault): PlantedFault => ({ ...fault, by: 'intakes' }));
