/** Telling the ERP what became of its requisitions: the newest news is shown once, whatever was cut off or repeated. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { AcknowledgedStatus, Acknowledgement } from '#connector/acknowledgements.ts';
import type { Outcome } from '#connector/connector.ts';
import type { RequisitionRecord } from '#connector/records.ts';
import type { Check } from '#connector/testing/check.ts';
import { faultPointsOf } from '#connector/testing/checks/faults.ts';
import { failCheck, needCall, needMember } from '#connector/testing/finding.ts';
import { outcomeText, slices } from '#connector/testing/operations.ts';
import type { Stage } from '#connector/testing/stage.ts';
import type { WatchedSession } from '#connector/testing/watched-session.ts';

const lookAt =
  'acknowledge(): a repetition under the same key leaves what one call leaves, and the newest news is the one that is shown';
/** A call is repeated at most so often: as the bridge does, only without its waits. */
const attemptsMax = 6;
const never = new AbortController().signal;

export const acknowledge: Check = {
  name: 'acknowledge',
  guarantee:
    'the ERP shows what became of its requisition, once and as it was told last; read() then returns no other requisition',
  async run(stage) {
    const session = await stage.open();
    const told = tellerOf(stage, session);
    const [requisition, other] = [await told.make('Ołów "A"'), await told.make('Ołów "B"')];
    const checkpoint = await lastCheckpoint(session);
    const created = news(requisition, 'created');
    await told.tell(created);
    await told.expectShown(created, 1, 'it was told for the first time');
    await told.tell(created);
    await told.expectShown(created, 1, 'the same was told again');
    const published = news(requisition, 'published', created.event?.id);
    await told.tell(published);
    await told.expectShown(published, 2, 'the event was published');
    const failed = news(other, 'failed');
    const nowhere = { ...news(requisition, 'created'), requisition: `NONE-${randomUUID().slice(0, 8)}` };
    const mustKnow = stage.target.takesUnknownRequisitions === undefined;
    const outcomes: Outcome[] = [];
    for (const slice of slices([...(mustKnow ? [nowhere] : []), failed], stage.capabilities.batchMax))
      outcomes.push(...(await told.call(slice)));
    const ofFailed = outcomes.at(-1);
    const ofNowhere = outcomes[0];
    if (mustKnow && (ofNowhere?.status !== 'rejected' || ofNowhere.error.type !== 'data'))
      failCheck({
        expected: 'a requisition that the ERP does not have is "rejected" as data',
        seen: outcomeText(ofNowhere),
        lookAt: 'acknowledge(): DataError for a requisition that was not found',
      });
    if (!ofFailed || !('reference' in ofFailed))
      failCheck({
        expected: 'the other requisition of its call is told, as nothing is wrong with it',
        seen: outcomeText(ofFailed),
        lookAt,
      });
    await told.expectShown(failed, 1, 'nothing was made of it');
    for await (const { records } of session.read('requisition', checkpoint, never))
      for (const record of records)
        for (const before of [requisition, other])
          if (record.reference_id === before.reference_id && !isDeepStrictEqual(record, before))
            failCheck({
              expected: `read() returns the requisition as it was before it was told: ${JSON.stringify(before)}`,
              seen: JSON.stringify(record),
              lookAt: 'which field acknowledge() writes: one that read() returns would change the event in turn',
            });
  },
};

export const acknowledgeAgain: Check = {
  name: 'acknowledge again',
  guarantee: 'after a connection breaks at any request of acknowledge(), a repetition leaves the news shown once',
  async run(stage) {
    const session = await stage.open();
    const told = tellerOf(stage, session);
    const proxy = stage.needProxy(session);
    const warm = await told.make('Cynk');
    await told.tell(news(warm, 'created'));
    proxy.reset();
    await told.tell(news(warm, 'published'));
    const total = proxy.count;
    for (const point of faultPointsOf(stage, total))
      for (const action of ['drop-before', 'drop-after'] as const) {
        const requisition = await told.make(`Cynk ${point}`);
        const created = news(requisition, 'created');
        await told.tell(created);
        const awarded = news(requisition, 'awarded', created.event?.id);
        const when = `the connection broke ${action === 'drop-before' ? 'before' : 'after'} request ${point}`;
        proxy.inject(({ n }) => (n === point ? action : 'pass'));
        const [outcome] = await told.call([awarded]);
        proxy.reset();
        await stage.waitUntilIdle(session);
        if (outcome?.status === 'rejected')
          failCheck({
            expected: `the news is not rejected when ${when}: nothing is wrong with the requisition`,
            seen: outcomeText(outcome),
            lookAt: 'which ConnectorError is thrown: TransientError or UnknownOutcome',
          });
        if (outcome && 'reference' in outcome)
          await told.expectShown(awarded, 2, `${when}, and was answered ${outcomeText(outcome)}`);
        else await told.tell(awarded);
        await told.expectShown(awarded, 2, `${when}, and it was told again`);
      }
  },
};

/** News of a requisition, of its event `id`. */
function news(requisition: RequisitionRecord, status: AcknowledgedStatus, id: string = randomUUID()): Acknowledgement {
  const { reference_id, name } = requisition;
  const base = { requisition: reference_id, status, idempotencyKey: randomUUID() };
  if (status === 'failed') {
    const reason = 'Die Währung "XXX" ist unbekannt <1>';
    return { ...base, reason, text: `Nothing was made of it: ${reason}` };
  }
  const event = { kind: 'event', id, name, reference: reference_id, url: `https://sourcing.example/e/${id}` } as const;
  return { ...base, event, text: `The event "${name}" (${id}) is ${status}: ${event.url}` };
}

function tellerOf({ target, capabilities }: Stage, session: WatchedSession) {
  const call = needCall(session.acknowledge, capabilities.acknowledges === true, 'acknowledge', 'acknowledges');
  const changeRecord = needMember(target, 'changeRecord', 'makes a requisition');
  const acknowledged = needMember(target, 'acknowledged', 'shows what the ERP was told of a requisition');
  return {
    call,
    make: (name: string) => changeRecord('requisition', name, false),
    /** Tells it until the ERP has it. */
    async tell(each: Acknowledgement): Promise<void> {
      let outcome: Outcome | undefined;
      for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
        [outcome] = await call([each]);
        if (outcome && 'reference' in outcome) return;
      }
      failCheck({
        expected: `the ERP takes the news of its requisition within ${attemptsMax} undisturbed calls`,
        seen: outcomeText(outcome),
        lookAt,
      });
    },
    /** Fails the check unless the ERP shows it last, and shows no more than `most` entries. */
    async expectShown(wanted: Acknowledgement, most: number, when: string): Promise<void> {
      const shown = await acknowledged(wanted.requisition);
      const last = shown.at(-1);
      const { status, event, reason, text } = wanted;
      const whole: Readonly<Record<string, unknown>> = { status, event: event?.id, reason, text };
      const members = Object.entries(last ?? {}).filter(([, value]) => value !== undefined);
      const fits = members.every(([member, value]) => whole[member] === value);
      const isNamed = last?.status !== undefined || last?.text !== undefined;
      if (!fits || !isNamed || shown.length > most)
        failCheck({
          expected: `after ${when}, the ERP shows ${JSON.stringify(whole)} last, and at most ${most} entries`,
          seen: JSON.stringify(shown),
          lookAt,
        });
    },
  };
}

async function lastCheckpoint(session: WatchedSession): Promise<string | undefined> {
  let last: string | undefined;
  for await (const { checkpoint } of session.read('requisition', undefined, never)) last = checkpoint;
  return last;
}
