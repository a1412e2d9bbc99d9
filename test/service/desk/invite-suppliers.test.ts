import { describe, expect, test } from 'vitest';
import { createEvent, createSuppliers, desk, eventPayload, readEvent } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1', 'S2', 'S3', 'gone']);
await service.db.database.query(`update service.suppliers set archived = true where external_id = 'gone'`);

const invite = (event: string, suppliers: unknown) =>
  organisation.call('POST', `/desk/events/${event}/invitations`, { suppliers });
const counts = async (event: string) => {
  const body = await readEvent(organisation, event);
  return Object.fromEntries(
    body.suppliers.map((one: { external_id: string; invite_count: number }) => [one.external_id, one.invite_count]),
  );
};
const bid = (event: string, supplier: string) =>
  organisation.call('POST', `/desk/events/${event}/bids`, { supplier, lots: [{ lot: 'A', values: { Price: '1' } }] });

describe('an invitation', () => {
  test('of a draft is sent when it is published', async () => {
    const event = await createEvent(organisation, eventPayload({ suppliers: ['S1'] }));
    const answer = await invite(event, ['S2']);
    expect([answer.status, answer.body.suppliers]).toMatchObject([200, [{ external_id: 'S2', invite_count: 0 }]]);
    expect(await counts(event)).toEqual({ S1: 0, S2: 0 });
    await desk(organisation, 'POST', `${event}/publish`);
    expect(await counts(event)).toEqual({ S1: 1, S2: 1 });
  });

  test('of an open event is sent at once, also a second time; invited suppliers may bid', async () => {
    const event = await createEvent(organisation, eventPayload({ suppliers: ['S1'] }));
    await desk(organisation, 'POST', `${event}/publish`);
    expect((await bid(event, 'S2')).status).toBe(409);
    const answer = await invite(event, ['S2', 'S1']);
    expect(answer.body.suppliers).toMatchObject([
      { external_id: 'S1', invite_count: 2, accepted: false },
      { external_id: 'S2', invite_count: 1, accepted: false },
    ]);
    expect((await bid(event, 'S2')).status).toBe(200);
    const other = await createEvent(organisation, eventPayload());
    expect(await counts(other)).toEqual({});
  });

  test.each<[string, unknown, [string, string][]]>([
    [
      'of suppliers that do not exist or are archived',
      ['S1', 'nobody', 'gone'],
      [
        ['suppliers[1]', 'there is no supplier "nobody"'],
        ['suppliers[2]', 'supplier "gone" is archived'],
      ],
    ],
    ['that names one twice', ['S2', 'S2'], [['suppliers[1]', 'supplier "S2" is named twice']]],
    ['of no supplier', [], [['suppliers', expect.any(String)]]],
    ['that is no list', 'S1', [['suppliers', expect.any(String)]]],
  ])('%s: 400 with each fault, and no supplier is invited', async (_what, suppliers, issues) => {
    const event = await createEvent(organisation, eventPayload({ suppliers: ['S1'] }));
    await desk(organisation, 'POST', `${event}/publish`);
    const answer = await invite(event, suppliers);
    expect([
      answer.status,
      answer.body.errors.map((error: { path: string; message: string }) => [error.path, error.message]),
    ]).toEqual([400, issues]);
    expect(await counts(event)).toEqual({ S1: 1 });
  });

  test("of another organisation's supplier is refused as of one that does not exist", async () => {
    const other = await service.organisation();
    await createSuppliers(other, ['theirs']);
    const event = await createEvent(organisation, eventPayload());
    expect((await invite(event, ['theirs'])).body.errors).toEqual([
      { path: 'suppliers[0]', message: 'there is no supplier "theirs"' },
    ]);
  });

  test('counts each of several requests at once', async () => {
    const event = await createEvent(organisation, eventPayload());
    await desk(organisation, 'POST', `${event}/publish`);
    const answers = await Promise.all(Array.from({ length: 5 }, () => invite(event, ['S3'])));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(await counts(event)).toEqual({ S3: 5 });
  });
});

test('an archived supplier keeps its invitations', async () => {
  const own = await service.organisation();
  await createSuppliers(own, ['old']);
  const event = await createEvent(own, eventPayload({ suppliers: ['old'] }));
  await desk(own, 'POST', `${event}/publish`);
  await service.db.database.query('update service.suppliers set archived = true where organisation_id = $1', [own.id]);
  const lots = [{ lot: 'A', values: { Price: '1' } }];
  expect((await own.call('POST', `/desk/events/${event}/bids`, { supplier: 'old', lots })).status).toBe(200);
  expect((await own.call('POST', `/desk/events/${event}/invitations`, { suppliers: ['old'] })).status).toBe(400);
});
