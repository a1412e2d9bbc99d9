/** The RFI responses feed at each of its rows in the contract's table "Feed update conditions". */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { uploadFile } from '../../harness/files.ts';
import {
  createEvent,
  createSuppliers,
  desk,
  endedJob,
  eventPayload,
  readEvent,
  readWholeFeed,
} from '../../harness/sourcing.ts';
import { takeNotifications } from '../../harness/take-notifications.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const trigger = 'RFI_RESPONSES_FEED_UPDATED';

interface Record {
  id: number;
  question_uuid: string;
  value?: string;
  modified: string;
}

/** An organisation with a webhook whose receiver does not answer: its notifications stay in the outbox. */
async function observed() {
  const organisation = await service.organisation();
  await organisation.call('POST', '/api/webhooks', { name: 'rfi', url: 'https://localhost:1/', triggers: [trigger] });
  await createSuppliers(organisation, ['S1', 'S2']);
  let last = '';
  /** Whether the trigger fired since the last call, and the records that were appended since. */
  const look = async () => {
    const fired = await takeNotifications(service.db.database, organisation.id);
    const records: Record[] = await readWholeFeed(organisation, 'rfi-responses');
    const appended = records.filter(({ modified }) => modified > last);
    last = records.at(-1)?.modified ?? last;
    return { fired: fired.length > 0, payloads: fired.map(({ payload }) => payload), appended };
  };
  return { organisation, look };
}

const question = (identifier: string, members: object = {}) => ({
  uuid: randomUUID(),
  identifier,
  question_text: `Question ${identifier}`,
  input_type: 'TEXT',
  ...members,
});

/** A published event with two questions, both answered by S1 and the first by S2. */
async function answeredEvent(organisation: TestOrganisation) {
  const [first, second] = [question('1'), question('2')];
  const questions = [first, second] as const;
  const event = await createEvent(organisation, eventPayload({ suppliers: ['S1', 'S2'] }));
  await desk(organisation, 'PUT', `${event}/questions`, questions);
  await desk(organisation, 'POST', `${event}/publish`);
  const answer = (supplier: string, answers: object[]) =>
    desk(organisation, 'POST', `${event}/answers`, { supplier, answers });
  await answer('S1', [
    { question_uuid: first.uuid, value: 'a' },
    { question_uuid: second.uuid, value: 'b' },
  ]);
  await answer('S2', [{ question_uuid: first.uuid, value: 'c' }]);
  return { event, questions, first, second, answer };
}

test('an event without an RFI, or without an answer, has no record; the trigger fires nevertheless', async () => {
  const { organisation, look } = await observed();
  const event = await createEvent(organisation, eventPayload({ suppliers: ['S1'] }));
  expect(await look()).toMatchObject({ fired: false, appended: [] });
  await desk(organisation, 'PUT', `${event}/questions`, [question('1')]);
  expect(await look()).toMatchObject({ fired: false, appended: [] });
  for (const command of ['publish', 'pause', 'resume', 'rounds/1/close', 'close']) {
    await desk(organisation, 'POST', `${event}/${command}`);
    expect([command, await look()]).toMatchObject([command, { fired: true, appended: [] }]);
  }
});

test('answers append only their records; the same answers again fire the trigger and append none', async () => {
  const { organisation, look } = await observed();
  const { event, first, second, answer } = await answeredEvent(organisation);
  const { payloads, appended } = await look();
  expect(appended.map(({ question_uuid: id, value }) => [id, value])).toEqual([
    [first.uuid, 'a'],
    [second.uuid, 'b'],
    [first.uuid, 'c'],
  ]);
  expect(payloads).toContainEqual({
    sourcing_event: event,
    sourcing_event_name: 'Office chairs',
    feed_modified: appended[2]?.modified,
  });
  await answer('S1', [{ question_uuid: first.uuid, value: 'a' }]);
  expect(await look()).toMatchObject({ fired: true, appended: [] });
  await answer('S1', [
    { question_uuid: first.uuid, value: 'a' },
    { question_uuid: second.uuid, value: 'B' },
  ]);
  expect(await look()).toMatchObject({ fired: true, appended: [{ id: appended[1]?.id, value: 'B' }] });
});

test('pause, resume, a closed round and the closed event fire and append only changed records', async () => {
  const { organisation, look } = await observed();
  const { event } = await answeredEvent(organisation);
  await look();
  for (const command of ['pause', 'resume', 'rounds/1/close', 'close']) {
    await desk(organisation, 'POST', `${event}/${command}`);
    expect([command, await look()]).toMatchObject([command, { fired: true, appended: [] }]);
  }
});

test('a draft shows no records: unpublish hides them without a notification, re-publish shows them again', async () => {
  const { organisation, look } = await observed();
  const { event, questions } = await answeredEvent(organisation);
  const { appended: before } = await look();
  await desk(organisation, 'POST', `${event}/unpublish`);
  expect(await look()).toMatchObject({ fired: false });
  expect(await readWholeFeed(organisation, 'rfi-responses')).toEqual([]);
  // An edit of the draft shows none of them.
  await desk(organisation, 'PUT', `${event}/questions`, [{ ...questions[0], question_text: 'Why?' }, questions[1]]);
  expect(await look()).toMatchObject({ fired: true, appended: [] });
  await desk(organisation, 'POST', `${event}/publish`);
  const after = await look();
  expect(after.fired).toBe(true);
  const withoutTime = (records: Record[]) => records.map(({ modified: _modified, ...record }) => record);
  expect(withoutTime(after.appended)).toEqual(withoutTime(before));
  await desk(organisation, 'POST', `${event}/close`);
  await desk(organisation, 'POST', `${event}/delete`);
  expect(await readWholeFeed(organisation, 'rfi-responses')).toEqual([]);
});

test('an edited question fires the trigger and changes no response; other lists do not fire it', async () => {
  const { organisation, look } = await observed();
  const { event, questions } = await answeredEvent(organisation);
  const [first, second] = questions;
  const put = (list: object[]) => desk(organisation, 'PUT', `${event}/questions`, list);
  const choice = { input_type: 'SINGLE_CHOICE', options: [{ value: 'x' }, { value: 'y' }] };
  await look();
  const steps: [string, object[], boolean][] = [
    ['nothing', [first, second], false],
    ['a question added', [first, second, question('3')], false],
    ['and removed', [first, second], false],
    ['another order', [second, first], false],
    ['another text', [{ ...second, question_text: 'Why?' }, first], true],
    ['another type', [second, { ...first, question_type: 'MANDATORY' }], true],
    ['another input type', [second, { ...first, ...choice }], true],
    ['an option deleted', [second, { ...first, ...choice, options: [{ value: 'y' }] }], true],
    ['an attachment', [{ ...second, attachment_file_uuids: [await uploadFile(organisation)] }, first], true],
  ];
  const responses = await readWholeFeed(organisation, 'rfi-responses');
  for (const [what, list, fires] of steps) {
    await put(list);
    expect([what, await look()]).toMatchObject([what, { fired: fires, appended: [] }]);
  }
  expect(await readWholeFeed(organisation, 'rfi-responses')).toEqual(responses);
});

test('a removed attachment fires the trigger and appends its record; a refused command does neither', async () => {
  const { organisation, look } = await observed();
  const { event, first, answer } = await answeredEvent(organisation);
  const upload = question('3', { input_type: 'FILE' });
  const { questions } = await readEvent(organisation, event);
  const asInput = ({ id, sourcing_event: _event, modified: _modified, ...rest }: { [member: string]: unknown }) => ({
    uuid: id,
    ...rest,
  });
  await desk(organisation, 'PUT', `${event}/questions`, [...questions.map(asInput), upload]);
  const files = [await uploadFile(organisation), await uploadFile(organisation)];
  await answer('S1', [{ question_uuid: upload.uuid, document_file_uuids: files }]);
  const { appended } = await look();
  const path = `/desk/events/${event}/answers/S1/${upload.uuid}/files`;
  await organisation.call('DELETE', `${path}/${files[0]}`);
  expect(await look()).toMatchObject({
    fired: true,
    appended: [{ id: appended.at(-1)?.id, document_file_uuids: [files[1]] }],
  });
  expect((await organisation.call('DELETE', `${path}/${files[0]}`)).status).toBe(404);
  const wrong = { supplier: 'S1', answers: [{ question_uuid: first.uuid, value: '' }] };
  expect((await organisation.call('POST', `/desk/events/${event}/answers`, wrong)).status).toBe(400);
  expect((await organisation.call('PUT', `/desk/events/${event}/questions`, [])).status).toBe(409);
  expect(await look()).toMatchObject({ fired: false, appended: [] });
});

test("a record names the event's only request; a late one catches up with any supplier's next answer", async () => {
  const { organisation, look } = await observed();
  const { event, first, second, answer } = await answeredEvent(organisation);
  const { appended } = await look();
  for (const record of appended) expect(record).not.toHaveProperty('sourcing_request');
  const request = await endedJob(organisation, '/api/jobs/create-sourcing-requests', { name: 'Chairs' });
  await endedJob(organisation, '/api/jobs/update-sourcing-event', {
    sourcing_event: event,
    sourcing_requests: [request.created_entity],
  });
  expect(await look()).toMatchObject({ fired: false, appended: [] });
  // An edited question changes no response, also when one lags behind.
  await desk(organisation, 'PUT', `${event}/questions`, [first, { ...second, question_text: 'Why?' }]);
  expect(await look()).toMatchObject({ fired: true, appended: [] });
  await answer('S2', [{ question_uuid: first.uuid, value: 'c' }]);
  const caughtUp = await look();
  expect(caughtUp.payloads).toMatchObject([{ sourcing_request: request.created_entity }]);
  expect(caughtUp.appended).toMatchObject(appended.map(({ id }) => ({ id, sourcing_request: request.created_entity })));
});

test('include=questions shows the questions of the page as they are now, and of this organisation only', async () => {
  const { organisation } = await observed();
  const { event, questions, first } = await answeredEvent(organisation);
  const other = (await observed()).organisation;
  const theirs = await createEvent(other, eventPayload({ suppliers: ['S1'] }));
  await desk(other, 'PUT', `${theirs}/questions`, [{ ...first, question_text: 'Of another organisation' }]);
  await desk(organisation, 'PUT', `${event}/questions`, [first, { ...questions[1], question_text: 'Why?' }]);
  const live = (await readEvent(organisation, event)).questions;
  const read = async (query: string) =>
    (await organisation.call('GET', `/api/feeds/rfi-responses?include=questions${query}`)).body;
  const whole = await read('');
  expect(whole.includes.questions).toEqual(live);
  expect(whole.includes.questions[1]).toMatchObject({ question_text: 'Why?' });
  // The response itself is what it was before the edit.
  expect(whole.includes.questions[1].modified > whole.data[1].modified).toBe(true);
  const page = await read('&page_size=1');
  expect(page.includes.questions).toEqual(live.slice(0, 1));
});
