/**
 * Reading back: what a person has changed or deleted in the ERP is found, and nothing else; whatever could not be read is
 * never taken for a change.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Operation } from '#connector/connector.ts';
import type { DocumentKind } from '#connector/documents.ts';
import { RateLimited } from '#connector/errors.ts';
import {
  comparedValuesOf,
  isDifferent,
  type ReadBack,
  type ReadField,
  type TakenDocument,
} from '#connector/read-back.ts';
import type { Check } from '#connector/testing/check.ts';
import { abortAndEnd } from '#connector/testing/ends-within.ts';
import { CheckFailure, failCheck, NotApplicable, needCall, needMember } from '#connector/testing/finding.ts';
import { operation, outcomeText, slices } from '#connector/testing/operations.ts';
import type { Sample } from '#connector/testing/sample-documents.ts';
import type { Stage } from '#connector/testing/stage.ts';
import type { EditedField } from '#connector/testing/target.ts';
import type { WatchedSession } from '#connector/testing/watched-session.ts';
import { brokenConnections, faultPointsOf, type InjectedFault, serverFaults } from './faults.ts';

const never = new AbortController().signal;
const lookAt =
  'readBack(): both values of a field in the same exact form, the expected one from the mapping of write()';
const hintOfFaults = 'readBack(): what could not be read is "unclear", or an error; it is neither missing nor changed';
/** No object has more values that are worth a try of their own. */
const editsMax = 50;

export const readBack: Check = {
  name: 'read back',
  guarantee:
    'readBack() finds each edit of a person and each deleted object, and nothing else; it changes nothing in the ERP',
  async run(stage) {
    const session = await stage.open();
    const reader = readerOf(stage, session);
    for (const kind of reader.kinds) {
      // Six samples have all texts and currencies.
      const samples = Array.from({ length: 6 }, (_, n) => stage.sample(kind, n));
      const created = await stage.create(session, samples);
      const before = await heldOf(stage, samples);
      const untouched = created.map(deliveredOf);
      reader.expectSame(await reader.read(untouched), 'it was written');
      if (!isDeepStrictEqual(await heldOf(stage, samples), before))
        failCheck({ expected: `readBack() changes nothing in the ERP (${kind})`, seen: 'other objects', lookAt });
      await expectVersions(stage, session, reader, samples[1] as Sample, created[1] as Operation);
      await expectNothingHeld(stage, reader, kind);
      await expectEdits(stage, session, reader, kind);
      await expectRemoval(stage, session, reader, kind);
    }
  },
};

/** After an amendment the ERP holds the new version; asked for the old one, it differs from that. */
async function expectVersions(stage: Stage, session: WatchedSession, reader: Reader, sample: Sample, made: Operation) {
  const [v1, v2] = sample.versions;
  const [outcome] = await session.write([operation('amend', sample, v2, made.reference)]);
  if (!outcome || !('reference' in outcome))
    failCheck({ expected: 'an amendment that the ERP takes', seen: outcomeText(outcome), lookAt: 'write()' });
  await stage.waitUntilIdle(session);
  const { reference } = outcome;
  reader.expectSame(await reader.read([{ document: v2, reference }]), 'it was amended');
  const [answer] = await reader.read([{ document: v1, reference }]);
  if (answer?.status !== 'held' || differencesOf(answer).length === 0)
    failCheck({
      expected: `for the version before the amendment, readBack() reports what the ERP holds differently (${sample.kind})`,
      seen: shown(answer),
      lookAt: 'where the expected values come from: the document that readBack() is given, not the ERP',
    });
}

async function expectNothingHeld(stage: Stage, reader: Reader, kind: DocumentKind): Promise<void> {
  const [document] = stage.sample(kind, 2).versions;
  const [answer] = await reader.read([{ document, reference: undefined }]);
  if (answer?.status !== 'missing')
    failCheck({
      expected: `a ${kind} that the ERP never had, and whose reference is not known, is "missing"`,
      seen: shown(answer),
      lookAt: 'how readBack() finds the object of a key where there is no reference',
    });
}

async function expectEdits(stage: Stage, session: WatchedSession, reader: Reader, kind: DocumentKind): Promise<void> {
  for (let n = 0; n < editsMax; n += 1) {
    const [sample, other] = [stage.sample(kind, n), stage.sample(kind, n + 1)];
    const created = await stage.create(session, [sample, other]);
    const edited = await reader.edit(sample.versions[0], n);
    if (edited === undefined && n === 0)
      failCheck({
        expected: `target.edit() changes at least one value of a ${kind}, as a person would`,
        seen: 'none',
        lookAt: 'edit() of the conformance test',
      });
    const [first, second] = await reader.read(created.map(deliveredOf));
    reader.expectSame([second as ReadBack], 'another object was edited');
    if (edited === undefined) return reader.expectSame([first as ReadBack], 'it was written');
    const found = first?.status === 'held' ? differencesOf(first) : undefined;
    if (!found || !isDeepStrictEqual(sorted(found), sorted(edited)))
      failCheck({
        expected: `after a person's edit of a ${kind}, readBack() reports ${JSON.stringify(sorted(edited))}, and nothing else`,
        seen: found ? JSON.stringify(sorted(found)) : shown(first),
        lookAt,
      });
  }
}

async function expectRemoval(stage: Stage, session: WatchedSession, reader: Reader, kind: DocumentKind): Promise<void> {
  const [sample, other] = [stage.sample(kind, 3), stage.sample(kind, 4)];
  const created = await stage.create(session, [sample, other]);
  const expected = await reader.remove(sample.versions[0]);
  if (expected === undefined) return;
  const [first, second] = await reader.read(created.map(deliveredOf));
  if (first?.status !== expected)
    failCheck({
      expected: `a ${kind} that a person has removed is "${expected}"`,
      seen: shown(first),
      lookAt: 'what readBack() makes of an object that the ERP does not show, or shows as cancelled',
    });
  reader.expectSame([second as ReadBack], 'another object was removed');
}

export const readBackCutOff: Check = {
  name: 'read back cut off',
  guarantee:
    'what readBack() cannot read is unclear, never missing or changed; 429 becomes RateLimited; it ends soon after an abort',
  async run(stage) {
    const session = await stage.open();
    const reader = readerOf(stage, session);
    const proxy = stage.needProxy(session);
    const isHttp = stage.target.proxy?.protocol === 'http';
    for (const kind of reader.kinds.filter((each) => stage.faultKinds.includes(each))) {
      const samples = Array.from({ length: Math.min(3, stage.capabilities.batchMax) }, (_, n) => stage.sample(kind, n));
      const deliveries = (await stage.create(session, samples)).map(deliveredOf);
      proxy.reset();
      await reader.read(deliveries);
      const total = proxy.count;
      for (const point of faultPointsOf(stage, total))
        for (const { what, action } of isHttp ? [...brokenConnections, ...refused] : brokenConnections) {
          proxy.inject(({ n }) => (n === point ? action : 'pass'));
          const answers = await reader.attempt(deliveries, never);
          proxy.reset();
          await stage.waitUntilIdle(session);
          expectNothingClaimed(answers, `${what} ${point}`);
          reader.expectSame(await reader.read(deliveries), `${what} ${point} of an earlier call`);
        }
      await expectStops(stage, session, reader, deliveries);
      if (isHttp) await expectRateLimited(stage, session, reader, deliveries);
    }
  },
};

async function expectStops(
  stage: Stage,
  session: WatchedSession,
  reader: Reader,
  deliveries: readonly TakenDocument[],
) {
  const proxy = stage.needProxy(session);
  proxy.inject(() => 'hold');
  const answers = await abortAndEnd(proxy, stage.stopMs, 'readBack()', (signal) => reader.attempt(deliveries, signal));
  await proxy.release();
  proxy.reset();
  await stage.waitUntilIdle(session);
  expectNothingClaimed(answers, 'it was aborted before the ERP had answered');
}

/** Where nothing at all was read, the bridge has to know how long to wait. */
async function expectRateLimited(stage: Stage, session: WatchedSession, reader: Reader, deliveries: TakenDocument[]) {
  const proxy = stage.needProxy(session);
  proxy.inject(() => ({ status: 429, headers: { 'retry-after': '7' }, body: 'slow down' }));
  const answers = await reader.attempt(deliveries, never);
  proxy.reset();
  if (!(answers instanceof RateLimited) || answers.retryAfterMs !== 7_000)
    failCheck({
      expected: '429 with Retry-After: 7 to every request makes readBack() throw RateLimited, retryAfterMs 7000',
      seen: answers instanceof Error ? String(answers) : answers.map(shown).join(', '),
      lookAt: 'RateLimited: thrown for 429, and not turned into "unclear" where nothing at all was read',
    });
  reader.expectSame(await reader.read(deliveries), 'every request of an earlier call was answered 429');
}

const refused: readonly InjectedFault[] = [
  ...serverFaults,
  { what: '401 answers request', action: { status: 401, body: 'who are you?' } },
];

/** A part of the answers may be right, where other requests were answered. */
function expectNothingClaimed(answers: readonly ReadBack[] | Error, when: string): void {
  if (answers instanceof Error) return;
  for (const answer of answers)
    if (answer.status !== 'unclear' && (answer.status !== 'held' || differencesOf(answer).length > 0))
      failCheck({
        expected: `readBack() throws, or says "unclear", when ${when}`,
        seen: shown(answer),
        lookAt: hintOfFaults,
      });
}

type Reader = ReturnType<typeof readerOf>;

/** Throws NotApplicable where the connector reads nothing back. */
function readerOf(stage: Stage, session: WatchedSession) {
  const { target, capabilities } = stage;
  const { readsBack = [] } = capabilities;
  const call = needCall(session.readBack, readsBack.length > 0, 'readBack', 'readsBack');
  const edit = needMember(target, 'edit', 'changes a value of an object as a person would');
  const remove = needMember(target, 'remove', 'deletes or cancels an object as a person would');
  const kinds = stage.kinds.filter((kind) => readsBack.includes(kind));
  if (kinds.length === 0) throw new NotApplicable('none of the kinds that are tested is read back');
  const attempt = async (deliveries: readonly TakenDocument[], signal: AbortSignal): Promise<ReadBack[] | Error> =>
    call(deliveries, signal).catch((error: unknown) => {
      if (error instanceof CheckFailure) throw error;
      return error instanceof Error ? error : new Error(String(error));
    });
  return {
    kinds,
    edit,
    remove,
    attempt,
    async read(deliveries: readonly TakenDocument[]): Promise<ReadBack[]> {
      const answers: ReadBack[] = [];
      for (const slice of slices(deliveries, stage.capabilities.batchMax)) answers.push(...(await call(slice, never)));
      return answers;
    },
    /** Fails the check unless each is held, has values that were compared, and none of them differs. */
    expectSame(answers: readonly ReadBack[], when: string): void {
      for (const answer of answers)
        if (answer.status !== 'held' || comparedValuesOf(answer) === 0 || differencesOf(answer).length > 0)
          failCheck({
            expected: `readBack() says that ${answer.key} is held as it was written, with at least one value, after ${when}`,
            seen: answer.status === 'held' && comparedValuesOf(answer) === 0 ? 'no values' : shown(answer),
            lookAt,
          });
    },
  };
}

function deliveredOf({ document, reference }: Operation): TakenDocument {
  return { document, reference };
}

function differencesOf({ fields }: ReadBack & { status: 'held' }): ReadField[] {
  return fields.filter(isDifferent);
}

function sorted(fields: readonly EditedField[]): EditedField[] {
  return fields
    .map(({ name, held }) => ({ name, held }))
    .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

function heldOf({ target }: Stage, samples: readonly Sample[]): Promise<unknown[]> {
  return Promise.all(samples.map(({ versions }) => target.held(versions[0])));
}

function shown(answer: ReadBack | undefined): string {
  if (!answer) return 'no answer';
  if (answer.status === 'held') return `"held": ${JSON.stringify(differencesOf(answer).slice(0, 10))}`;
  return answer.status === 'unclear' ? `"unclear": ${answer.reason}` : `"${answer.status}"`;
}
