/** The other direction: everything is read, nothing is left out after a kill, and a read ends. */
import { isDeepStrictEqual } from 'node:util';
import {
  type ReadPage,
  type ReadStream,
  type RecordOf,
  recordSchemas,
  type SupplierRecord,
} from '#connector/records.ts';
import type { Check } from '#connector/testing/check.ts';
import { Fault, fault, NotApplicable } from '#connector/testing/finding.ts';
import type { Stage } from '#connector/testing/stage.ts';
import type { Opened } from '#connector/testing/watched-session.ts';
import { within } from '#connector/testing/within.ts';
import { errorText } from '#platform/errors.ts';

const lookAt =
  'read(): what changed since the checkpoint, oldest first; the checkpoint covers what its page and those before showed';
const pagesMost = 10_000;
const readMs = 30_000;
const never = new AbortController().signal;

export const read: Check = {
  name: 'read',
  guarantee: 'read() gives every record in the service’s words, then what has changed, and ends',
  async run(stage) {
    for (const stream of streamsOf(stage)) {
      const opened = await stage.open();
      const change = changer(stage, stream);
      const before = await change('Śruby & Söhne "A"');
      const all = await pages(opened, stream, undefined);
      for (const { records } of all) for (const record of records) expectValid(stream, record);
      expectShown(all, stream, before, 'a read of everything');
      const last = all.at(-1)?.checkpoint;
      const made = [await change('Śruby & Söhne "B"'), await change('東京', stream === 'supplier')];
      const later = await pages(opened, stream, last);
      for (const record of made) expectShown(later, stream, record, 'a read from the last checkpoint, after a change');
      for (const { records } of later) for (const record of records) expectValid(stream, record);
      // Nothing changes any more: it has to end, and what it shows again may not grow.
      const checkpoint = later.at(-1)?.checkpoint;
      const once = await pages(opened, stream, checkpoint);
      const twice = await pages(opened, stream, once.at(-1)?.checkpoint ?? checkpoint);
      if (countOf(twice) > countOf(once))
        fault({
          expected: `a read from the last checkpoint shows no more than the one before (${countOf(once)} records), as nothing has changed`,
          seen: `${countOf(twice)} records`,
          lookAt,
        });
    }
  },
};

export const readAgain: Check = {
  name: 'read again',
  guarantee:
    'killed in the middle of a read, the next process goes on from the last page that was stored, and misses nothing',
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
          fault({
            expected: `${kept} of ${whole.length} pages and a read from the checkpoint of the last of them show every ${stream}`,
            seen: `${missing.length} are missing: ${missing.slice(0, 5).join(', ')}`,
            lookAt,
          });
      }
    }
  },
};

export const stoppedRead: Check = {
  name: 'stopped read',
  guarantee: 'a read that is told to stop ends within 5 s, also while the ERP hangs',
  async run(stage) {
    for (const stream of streamsOf(stage)) {
      const change = changer(stage, stream);
      for (let n = 0; n < 5; n += 1) await change(`Stop ${n}`);
      const opened = await stage.open();
      const { proxy } = opened;
      const stop = new AbortController();
      const count = await untilStopped(opened, stream, stop, () => stop.abort(reason));
      if (count > 1)
        fault({
          expected: 'no page comes after the signal is aborted',
          seen: `${count - 1} more`,
          lookAt: 'read(): it asks the signal before each page',
        });
      if (!proxy) continue;
      proxy.steer(() => 'hold');
      const hanging = new AbortController();
      const reading = untilStopped(opened, stream, hanging, () => undefined);
      await Promise.race([proxy.arrived(1), reading]);
      hanging.abort(reason);
      await within(
        stage.stopMs,
        'read() that is told to stop',
        'whether the signal is passed on to every request',
        reading,
      );
    }
  },
};

const reason = new Error('the conformance kit stops this read');

/** How many pages came. That it throws is an end like any other. */
async function untilStopped(
  opened: Opened,
  stream: ReadStream,
  stop: AbortController,
  onPage: () => void,
): Promise<number> {
  let count = 0;
  try {
    for await (const _ of opened.read(stream, undefined, stop.signal)) {
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
  const { changeRecord } = target;
  if (!changeRecord)
    fault({
      expected: 'target.changeRecord makes a change that read() has to show',
      seen: 'the target has none',
      lookAt: 'the conformance test',
    });
  return async (name: string, archived = false): Promise<RecordOf<Stream>> => {
    const record = await changeRecord(stream, name, archived);
    if (archived && !(record as SupplierRecord).archived)
      fault({
        expected: 'target.changeRecord makes an archived supplier when it is asked for one, and gives it as that',
        seen: JSON.stringify(record),
        lookAt: 'changeRecord() of the conformance test',
      });
    return record;
  };
}

async function pages<Stream extends ReadStream>(
  opened: Opened,
  stream: Stream,
  checkpoint: string | undefined,
): Promise<ReadPage<Stream>[]> {
  const reading = (async () => {
    const seen: ReadPage<Stream>[] = [];
    for await (const page of opened.read(stream, checkpoint, never)) {
      if (typeof page.checkpoint !== 'string' || page.checkpoint === '')
        fault({ expected: 'each page has a checkpoint, a text', seen: JSON.stringify(page.checkpoint), lookAt });
      seen.push(page);
      if (seen.length > pagesMost)
        fault({ expected: `read() of ${stream} ends`, seen: `${pagesMost} pages, and more`, lookAt });
    }
    return seen;
  })();
  try {
    return await within(readMs, `read() of ${stream}`, lookAt, reading);
  } catch (error) {
    if (error instanceof Fault) throw error;
    return fault({ expected: `read() of ${stream} gives pages`, seen: `it threw: ${errorText(error)}`, lookAt });
  }
}

function expectValid(stream: ReadStream, record: unknown): void {
  const { error } = recordSchemas[stream].safeParse(record);
  if (error)
    fault({
      expected: `a ${stream} record as its schema says (src/connector/records.ts)`,
      seen: `${error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ')} in ${JSON.stringify(record).slice(0, 300)}`,
      lookAt: 'the mapping of read records: what is unknown is left out, never null',
    });
}

function keyOf(stream: ReadStream, record: object): string {
  return String(Reflect.get(record, stream === 'supplier' ? 'external_id' : 'reference_id'));
}

function keysOf(some: readonly ReadPage[], stream: ReadStream): Set<string> {
  return new Set(some.flatMap(({ records }) => records.map((record) => keyOf(stream, record))));
}

function countOf(some: readonly ReadPage[]): number {
  return some.reduce((sum, { records }) => sum + records.length, 0);
}

/** As it is now: what was read last of its key. */
function expectShown(some: readonly ReadPage[], stream: ReadStream, wanted: object, when: string): void {
  const key = keyOf(stream, wanted);
  const seen = some
    .flatMap(({ records }) => [...records] as object[])
    .findLast((record) => keyOf(stream, record) === key);
  if (!isDeepStrictEqual(seen, wanted))
    fault({
      expected: `${when} shows ${stream} ${key} as it is now: ${JSON.stringify(wanted)}`,
      seen: seen === undefined ? 'it is not shown' : JSON.stringify(seen),
      lookAt,
    });
}
