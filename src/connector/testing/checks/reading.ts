/** Reading from the ERP: everything is read, nothing is missed after a kill, and a read ends. */
import { isDeepStrictEqual } from 'node:util';
import {
  type ReadPage,
  type ReadStream,
  type RecordOf,
  recordSchemas,
  type SupplierRecord,
} from '#connector/records.ts';
import type { Check } from '#connector/testing/check.ts';
import { abortAndEnd, endsWithin } from '#connector/testing/ends-within.ts';
import { CheckFailure, failCheck, NotApplicable, needMember } from '#connector/testing/finding.ts';
import type { Stage } from '#connector/testing/stage.ts';
import type { WatchedSession } from '#connector/testing/watched-session.ts';
import { errorText } from '#platform/errors.ts';

const lookAt =
  'read(): the changes since the checkpoint, oldest first; a checkpoint covers the records of its page and of the pages before it';
const pagesMax = 10_000;
const readMs = 30_000;
const never = new AbortController().signal;

export const read: Check = {
  name: 'read',
  guarantee: 'read() returns every record in the service’s terms, then what has changed, and ends',
  async run(stage) {
    for (const stream of streamsOf(stage)) {
      const session = await stage.open();
      const change = changer(stage, stream);
      const before = await change('Śruby & Söhne "A"');
      const all = await pages(session, stream, undefined);
      expectValid(stream, all);
      expectShown(all, stream, before, 'a read of everything');
      const last = all.at(-1)?.checkpoint;
      const made = [await change('Śruby & Söhne "B"'), await change('東京', stream === 'supplier')];
      const later = await pages(session, stream, last);
      for (const record of made) expectShown(later, stream, record, 'a read from the last checkpoint, after a change');
      expectValid(stream, later);
      // Nothing changes any more: each read has to end, and must not return more records than the one before.
      const checkpoint = later.at(-1)?.checkpoint;
      const once = await pages(session, stream, checkpoint);
      const twice = await pages(session, stream, once.at(-1)?.checkpoint ?? checkpoint);
      if (countOf(twice) > countOf(once))
        failCheck({
          expected: `a read from the last checkpoint returns no more than the one before (${countOf(once)} records), as nothing has changed`,
          seen: `${countOf(twice)} records`,
          lookAt,
        });
    }
  },
};

export const readAgain: Check = {
  name: 'read again',
  guarantee: 'after a kill during a read, the next process continues from the last stored page and misses nothing',
  async run(stage) {
    for (const stream of streamsOf(stage)) {
      const change = changer(stage, stream);
      for (let n = 0; n < 5; n += 1) await change(`Re ${n}`);
      const whole = await pages(await stage.open(), stream, undefined);
      const all = keysOf(whole, stream);
      const step = Math.max(1, Math.floor(whole.length / 5));
      for (let kept = 1; kept <= whole.length; kept += step) {
        const stored = whole.slice(0, kept);
        const rest = await pages(await stage.open(), stream, stored.at(-1)?.checkpoint);
        const seen = new Set([...keysOf(stored, stream), ...keysOf(rest, stream)]);
        const missing = [...all].filter((key) => !seen.has(key));
        if (missing.length > 0)
          failCheck({
            expected: `${kept} of ${whole.length} pages and a read from the checkpoint of the last of them return every ${stream}`,
            seen: `${missing.length} are missing: ${missing.slice(0, 5).join(', ')}`,
            lookAt,
          });
      }
    }
  },
};

export const stoppedRead: Check = {
  name: 'stopped read',
  guarantee: 'a read ends within 5 s of an abort, also while the ERP hangs',
  async run(stage) {
    for (const stream of streamsOf(stage)) {
      const change = changer(stage, stream);
      for (let n = 0; n < 5; n += 1) await change(`Stop ${n}`);
      const session = await stage.open();
      const { proxy } = session;
      const stop = new AbortController();
      const count = await countPages(session, stream, stop.signal, () => stop.abort(reason));
      if (count > 1)
        failCheck({
          expected: 'no page comes after the signal is aborted',
          seen: `${count - 1} more`,
          lookAt: 'read(): it checks the signal before each page',
        });
      if (!proxy) continue;
      proxy.inject(() => 'hold');
      await abortAndEnd(proxy, stage.stopMs, 'read()', (signal) =>
        countPages(session, stream, signal, () => undefined),
      );
    }
  },
};

const reason = new Error('the conformance kit aborts this read');

/** Reads until the end and returns the number of pages. A read that throws has ended, too. */
async function countPages(
  session: WatchedSession,
  stream: ReadStream,
  signal: AbortSignal,
  onPage: () => void,
): Promise<number> {
  let count = 0;
  try {
    for await (const _ of session.read(stream, undefined, signal)) {
      count += 1;
      onPage();
    }
  } catch {
    return count;
  }
  return count;
}

function streamsOf({ capabilities }: Stage): readonly ReadStream[] {
  const { reads = [] } = capabilities;
  if (reads.length === 0) throw new NotApplicable('the connector reads nothing');
  return reads;
}

function changer<Stream extends ReadStream>({ target }: Stage, stream: Stream) {
  const changeRecord = needMember(target, 'changeRecord', 'makes a change that read() has to return');
  return async (name: string, archived = false): Promise<RecordOf<Stream>> => {
    const record = await changeRecord(stream, name, archived);
    if (archived && !(record as SupplierRecord).archived)
      failCheck({
        expected: 'target.changeRecord makes an archived supplier when it is asked for one, and returns it as archived',
        seen: JSON.stringify(record),
        lookAt: 'changeRecord() of the conformance test',
      });
    return record;
  };
}

async function pages<Stream extends ReadStream>(
  session: WatchedSession,
  stream: Stream,
  checkpoint: string | undefined,
): Promise<ReadPage<Stream>[]> {
  const reading = (async () => {
    const seen: ReadPage<Stream>[] = [];
    for await (const page of session.read(stream, checkpoint, never)) {
      if (typeof page.checkpoint !== 'string' || page.checkpoint === '')
        failCheck({
          expected: 'each page has a checkpoint, which is a text',
          seen: JSON.stringify(page.checkpoint),
          lookAt,
        });
      seen.push(page);
      if (seen.length > pagesMax)
        failCheck({ expected: `read() of ${stream} ends`, seen: `${pagesMax} pages, and more`, lookAt });
    }
    return seen;
  })();
  try {
    return await endsWithin(readMs, `read() of ${stream}`, lookAt, reading);
  } catch (error) {
    if (error instanceof CheckFailure) throw error;
    return failCheck({ expected: `read() of ${stream} returns pages`, seen: `it threw: ${errorText(error)}`, lookAt });
  }
}

function expectValid(stream: ReadStream, read: readonly ReadPage[]): void {
  for (const record of read.flatMap(({ records }) => [...records] as object[])) {
    const { error } = recordSchemas[stream].safeParse(record);
    if (error)
      failCheck({
        expected: `a ${stream} record that is valid by its schema (src/connector/records.ts)`,
        seen: `${error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ')} in ${JSON.stringify(record).slice(0, 300)}`,
        lookAt: 'the mapping of read records: what is unknown is left out, never null',
      });
  }
}

function keyOf(stream: ReadStream, record: object): string {
  const members = record as Readonly<Record<string, unknown>>;
  return String(members[stream === 'supplier' ? 'external_id' : 'reference_id']);
}

function keysOf(read: readonly ReadPage[], stream: ReadStream): Set<string> {
  return new Set(read.flatMap(({ records }) => records.map((record) => keyOf(stream, record))));
}

function countOf(read: readonly ReadPage[]): number {
  return read.reduce((sum, { records }) => sum + records.length, 0);
}

/** Fails the check unless the last record that was read for the key is equal to `wanted`. */
function expectShown(read: readonly ReadPage[], stream: ReadStream, wanted: object, when: string): void {
  const key = keyOf(stream, wanted);
  const seen = read
    .flatMap(({ records }) => [...records] as object[])
    .findLast((record) => keyOf(stream, record) === key);
  if (!isDeepStrictEqual(seen, wanted))
    failCheck({
      expected: `${when} returns ${stream} ${key} in its current state: ${JSON.stringify(wanted)}`,
      seen: seen === undefined ? 'it is not returned' : JSON.stringify(seen),
      lookAt,
    });
}
