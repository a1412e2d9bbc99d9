/**
 * Faults to plant in the bridge: each loses records, makes documents twice, or stops short. The simulation must find
 * them; test/simulation/README.md says how many seeds that takes. The generator was not made for any of them. Those of intakes
 * are found by a simulation of their own (`test/bridge/intake/simulation.test.ts`).
 *
 * `SIM_FAULT=<name>` plants one for a run of vitest (see `vitest.config.ts`): the text of the module is replaced when it
 * is loaded, and no file changes.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PlantedFault } from './planted-fault.ts';
import { plantedIntakeFaults } from './planted-intake-faults.ts';

const store = 'ledger/flows/flow-document-store.ts';
const batch = 'push/batch/push-batch.ts';

export const plantedFaults: readonly PlantedFault[] = [
  {
    name: 'an older version is believed at once',
    file: 'mirror/store-records.ts',
    by: 'reading',
    from: 'known.seen < shownSince && version.modified !== withoutTime',
    to: 'version.modified !== withoutTime',
  },
  {
    name: 'the first-seen bound is the sample of just now',
    file: 'pull/range/closed-bound.ts',
    by: 'reading',
    from: 'sampledAt <= timestampFromMs(seenBeforeMs)',
    to: 'sampledAt <= now',
  },
  {
    name: 'the closed bound leaves out the lateness',
    file: 'pull/range/closed-bound.ts',
    by: 'reading',
    from: '(Math.min(nowMs, sourceMs) - latenessMs) * 1_000',
    to: 'Math.min(nowMs, sourceMs) * 1_000',
  },
  {
    name: 'an empty answer completes its window',
    file: 'pull/range/read-range.ts',
    by: 'reading',
    from: 'if (answer.records.length === 0 && answer.next === undefined) {\n      if (end < last) {',
    to: 'if (answer.records.length === 0 && answer.next === undefined && end < 0) {\n      if (end < last) {',
  },
  {
    name: 'an answer with a next page completes its window',
    file: 'pull/range/read-range.ts',
    by: 'reading',
    from: 'const isWhole = answer.next === undefined && !range.cap',
    to: 'const isWhole = !range.cap',
  },
  {
    name: 'one page from the newest record on proves what lies before it',
    file: 'pull/read-news.ts',
    by: 'reading',
    from: 'return { from, known: from.after === undefined ? new Set() : undefined };',
    to: 'return { from, known: new Set() };',
  },
  {
    name: 'a page is followed in order although it is not',
    file: 'pull/follow-order.ts',
    by: 'reading',
    from: 'if (disorder !== undefined) throw new OrderBroken(disorder);',
    to: '',
  },
  {
    name: 'the source’s clock does not count',
    file: 'pull/range/closed-bound.ts',
    by: 'reading',
    from: 'Math.min(nowMs, sourceMs) - latenessMs',
    to: 'nowMs - latenessMs',
  },
  {
    name: 'the first-seen bound does not count',
    file: 'pull/range/closed-bound.ts',
    by: 'reading',
    from: 'Math.min(closed, microsFromTimestamp(bound))',
    to: 'closed',
  },
  {
    name: 'an answer that lacks known records counts',
    file: 'pull/range/read-range.ts',
    by: 'reading',
    from: 'if (answer.next !== undefined || attempt >= attemptsForKnown) return answer;',
    to: 'if (attempt >= 1) return answer;',
  },
  {
    name: 'a full page without a next page is the last one',
    file: 'pull/feed/page-cap.ts',
    by: 'reading',
    from: 'return records >= (records > requested ? full : Math.min(requested, full));',
    to: 'return records > 10 * full && requested > 0;',
  },
  {
    name: 'the windows begin after the newest record',
    file: 'pull/advance-watermark.ts',
    by: 'reading',
    from: '{ from: pull.due.watermark ?? undefined, to }',
    to: '{ from: pull.due.watermark ?? to, to }',
  },
  {
    name: 'the next window begins a second after the end of this one',
    file: 'pull/range/read-range.ts',
    by: 'reading',
    from: '({ end: start, nextSpan: span } = read.value);',
    to: '({ end: start, nextSpan: span } = { ...read.value, end: read.value.end + 1_000_000 });',
  },
  {
    name: 'one pass finds all records without a time',
    file: 'pull/backfill/untimed-read.ts',
    by: 'reading',
    from: 'if (pass > 0 && found === 0) return;',
    to: 'if (pass >= 0) return;',
  },
  {
    name: 'a crowded stamp is complete after one pass',
    file: 'pull/range/crowded-stamp.ts',
    by: 'reading',
    from: 'if (exactPasses >= 2 || quietPasses >= quietPassesWanted)',
    to: 'if (exactPasses >= 0)',
  },
  {
    name: 'a pull answers every notification',
    file: 'pull/feed/checkpoint-store.ts',
    from: 'update bridge.checkpoints set answered = $3 where',
    to: 'update bridge.checkpoints set answered = greatest($3, (select max(id) from bridge.inbox)) where',
  },
  {
    name: 'windows do not overlap at their beginning',
    file: 'pull/range/read-range.ts',
    by: 'reading',
    from: 'after: at(since - granularity)',
    to: 'after: at(since)',
  },
  {
    name: 'the first window moves the watermark to the end of the range',
    file: 'pull/range/read-feed-range.ts',
    by: 'reading',
    from: 'completeTo: () => step.complete?.to,',
    to: 'completeTo: () => range.to,',
  },
  {
    name: 'only the first page of the supplier list is read',
    file: 'pull/suppliers/pull-supplier-list.ts',
    from: 'counts.add(count);',
    to: 'return { ids, rows, count: undefined };',
  },
  {
    name: 'one audit that lacks a record is enough',
    file: 'pull/backfill/vanished-records.ts',
    from: 'where source = $1 and feed = $2 and gone is null and missing_since <= $3 and modified <= $5',
    to: 'where source = $1 and feed = $2 and gone is null and $3::timestamptz is not null and missing_since is not null and modified <= $5',
  },
  {
    name: 'another body with the same stamp is ignored',
    file: 'mirror/store-records.ts',
    from: 'const isNewer = version.modified >= known.modified;',
    to: 'const isNewer = version.modified > known.modified;',
  },
  {
    name: 'the documents that only the version before names are not marked',
    file: 'mirror/store-records.ts',
    from: 'documentKeysOf(feed, record, ...(version === undefined ? [] : [version]))',
    to: 'documentKeysOf(feed, record, ...(version === undefined ? [] : []))',
  },
  {
    name: 'a change while the document is written does not count as one',
    file: 'mirror/due/mark-documents.ts',
    from: 'wanted = d.wanted + 1, due = least(d.due, $2::timestamptz)',
    to: 'wanted = d.wanted, due = least(d.due, $2::timestamptz)',
  },
  {
    name: 'a document that has changed meanwhile is not due after its delivery',
    file: store,
    from: 'due = case when d.wanted = o.wanted then null else $2::timestamptz end,\n         waiting_since',
    to: 'due = null,\n         waiting_since',
  },
  {
    name: 'the intent of a call with an unknown outcome is forgotten',
    file: 'push/settle/settle-outcomes.ts',
    from: "outcome.status === 'unknown' || isPartial(outcome) || entry.keepIntent === true",
    to: 'isPartial(outcome) || entry.keepIntent === true',
  },
  {
    name: 'the ERP is looked up before the effect of a call is visible',
    file: 'push/batch/wait-for-effect.ts',
    from: 'waitMs: Math.max(0, interrupted.waitMs, ...ended)',
    to: 'waitMs: 0',
  },
  {
    name: 'an object that was found is created again',
    file: 'push/batch/look-up-documents.ts',
    from: "found ? 'amend' : 'create'",
    to: "'create'",
  },
  {
    name: 'no intent is committed before a call',
    file: batch,
    from: 'await commitIntents(tx, flow.name, remaining, call);',
    to: '',
  },
  {
    name: 'a call that ends after the lease was lost is not noted',
    file: batch,
    from: 'if (error instanceof LeaseLost && wasCalled)',
    to: 'if (error instanceof LeaseLost && !wasCalled)',
  },
  {
    name: 'the time limit of a call begins with the call',
    file: batch,
    from: 'Math.min(timeoutMs, intentMs + timeoutMs - clock.nowMs())',
    to: 'timeoutMs',
  },
  {
    name: 'fewer outcomes than operations are taken in their order',
    file: 'connectors/connector-calls.ts',
    from: 'if (outcomes.length !== asked.length)',
    to: 'if (outcomes.length > asked.length)',
  },
  {
    name: 'withdrawals are not counted',
    file: 'push/claim/claim-documents.ts',
    from: 'if (reason !== undefined) {',
    to: "if (reason === '') {",
  },
  ...plantedIntakeFaults,
];

const bridge = join(import.meta.dirname, '..', '..', 'src', 'bridge');

/** The text of the fault's module, with the fault; throws when the module has changed and the fault fits no more. */
export function withFault({ name, file, from, to }: PlantedFault, text?: string): string {
  const parts = (text ?? readFileSync(join(bridge, file), 'utf8')).split(from);
  if (parts.length !== 2)
    throw new Error(
      `The fault "${name}" does not fit src/bridge/${file}: its text stands there ${parts.length - 1} times.`,
    );
  return parts.join(to);
}

/** The plugin of Vite that plants the fault of this name. */
export function plantFault(name: string) {
  const fault = plantedFaults.find((each) => each.name === name);
  if (!fault) throw new Error(`There is no fault to plant with the name "${name}".`);
  const path = join(bridge, fault.file);
  return [
    {
      name: 'plant-fault',
      enforce: 'pre' as const,
      transform: (code: string, id: string) => (id.split('?')[0] === path ? withFault(fault, code) : undefined),
    },
  ];
}
