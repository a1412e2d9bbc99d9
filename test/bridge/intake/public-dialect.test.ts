/** Requisitions at a source whose dialect is public: at a service that takes nothing else, and at our own. */
import { describe, expect, test } from 'vitest';
import { loadAttachedFiles } from '#service/files/find-files.ts';
import { eventually } from '../../harness/eventually.ts';
import { startTestService } from '../../harness/test-service.ts';
import { startPublicService } from './public-service.ts';
import { startRequisitions } from './real-requisitions.ts';

const user = 'buyer@example.com';
const inPublic = { dialect: 'public', user_email: user };
const base64 = (text: string) => Buffer.from(text).toString('base64');
const requisition = (more: Record<string, unknown> = {}) => ({
  number: 'PR-7',
  name: 'Fasteners',
  closed: false,
  category: 'Steel',
  items: [
    { line: '10', name: 'Bolt', quantity: '4.5', unit: 'kg', currency: 'USD' },
    { line: '20', name: 'Nut', quantity: '8', unit: 'pc' },
  ],
  ...more,
});

async function start(given: Record<string, unknown>, service?: Awaited<ReturnType<typeof startPublicService>>) {
  const own = service ?? (await startPublicService());
  const intake = await startRequisitions({ service: own, organisation: own }, given, inPublic);
  const untilInStep = () =>
    eventually('all is made', async () => {
      await intake.run();
      return (await intake.status())?.lag.why === 'in step';
    });
  const letters = async () => (await intake.letters()).map(({ errorType, lastError }) => [errorType, lastError]);
  return { ...intake, service: own, letters, untilInStep };
}

const lots = [
  {
    name: 'Bolt',
    values: [
      { column: 'Item', value: 'Bolt' },
      { column: 'Quantity', value: '4.5' },
      { column: 'Unit', value: 'kg' },
      { column: 'Requisition', value: 'PR-7' },
    ],
  },
  {
    name: 'Nut',
    values: [
      { column: 'Item', value: 'Nut' },
      { column: 'Quantity', value: '8' },
      { column: 'Unit', value: 'pc' },
      { column: 'Requisition', value: 'PR-7' },
    ],
  },
];

describe('a service that takes the public names alone', () => {
  test('gets an event with the default bid sheet, and then its files at the URLs of the job', async () => {
    const { erp, service, makeAll, letters } = await start({ make: 'event' });
    const files = [
      { file_name: 'drawing.txt', content: base64('a drawing') },
      { file_name: 'note é.txt', content: base64('a note') },
    ];
    erp.saveRecord('requisitions', requisition({ files }));
    await makeAll();
    expect(await letters()).toEqual([]);
    expect(service.posts).toEqual(['create-sourcing-events 201', 'attach-files-to-sourcing-event 201']);
    const [made, attached] = service.jobs;
    expect(made?.body).toMatchObject({
      name: 'Fasteners',
      reference_id: 'PR-7',
      created_by: user,
      primary_cost_calculation: 'Price * Quantity',
      bid_sheet: { column_roles: { lot_identifier: 'Item' }, lots },
    });
    expect(attached?.body).toEqual({
      sourcing_event: made?.entity,
      created_by: user,
      files: ['drawing.txt', 'note é.txt'],
    });
    expect([...(attached?.uploaded ?? [])]).toEqual([
      ['drawing.txt', 'a drawing'],
      ['note é.txt', 'a note'],
    ]);
    expect(service.uploads).toEqual(['drawing.txt without a key', 'note%20%C3%A9.txt without a key']);
  });

  test('gets what mapping.event.with says: translated where the names differ, else as it stands', async () => {
    const round = { starts: '2030-01-01T00:00:00Z', ends: '2030-01-02T00:00:00Z' };
    const { erp, service, makeAll, letters } = await start({
      make: 'event',
      mapping: {
        event: {
          with: {
            event_contact: { name: 'Ann' },
            rounds: [round],
            event_type: 'AUCTION',
            timezone: 'Europe/Berlin',
            roles: [{ email: 'ann@example.com', role_type: 'EDITOR' }],
            tags: ['urgent'],
            created_by: 'ann@example.com',
          },
        },
      },
    });
    erp.saveRecord('requisitions', requisition({ plant: 'Rome' }));
    await makeAll();
    expect(await letters()).toEqual([]);
    expect(service.jobs[0]?.body).toMatchObject({
      business_contact: { name: 'Ann' },
      schedule: [round],
      event_type: 'AUCTION',
      timezone: 'Europe/Berlin',
      roles: [{ email: 'ann@example.com', role_type: 'EDITOR' }],
      tags: ['urgent', { name: 'Plant', value: 'Rome' }],
      created_by: 'ann@example.com',
    });
  });

  test('gets an event from any event, as its template', async () => {
    const template = '6a9e1f0c-51a7-4c0e-9d55-0d7ea9f3b1c2';
    const { erp, service, makeAll, letters } = await start({ make: 'event-from-template', template });
    erp.saveRecord('requisitions', requisition());
    await makeAll();
    expect(await letters()).toEqual([]);
    expect(service.jobs[0]?.body).toMatchObject({ template_sourcing_event_id: template, bid_sheet: { lots } });
  });

  test.each([
    [false, ['update-sourcing-events 201']],
    [true, ['update-sourcing-events 404', 'update-sourcing-event 201']],
  ])('gets the update of a draft under the path that it has (the singular one: %s)', async (singular, posts) => {
    const { erp, service, makeAll, untilInStep, letters } = await start(
      { make: 'event' },
      await startPublicService({ singular }),
    );
    erp.saveRecord('requisitions', requisition());
    await makeAll();
    erp.saveRecord('requisitions', requisition({ name: 'Steel fasteners', category: 'Metal' }));
    await eventually('the draft follows', async () => {
      await untilInStep();
      return service.jobs.length === 2;
    });
    expect(await letters()).toEqual([]);
    expect(service.posts.slice(1)).toEqual(posts);
    expect(service.jobs[1]?.body).toEqual({
      sourcing_event: service.jobs[0]?.entity,
      name: 'Steel fasteners',
      tags: [],
      bid_sheet: { lots },
    });
  });

  test('gets a sourcing request with the fields that its bot names', async () => {
    const bot = '6a9e1f0c-51a7-4c0e-9d55-0d7ea9f3b1c2';
    const { erp, service, makeAll, letters } = await start({
      make: 'request',
      mapping: {
        request: {
          item_fields: { Part: 'line.name', Amount: 'line.quantity' },
          bidding_deadline: { from: 'needed_by', type: 'text' },
          with: { bot },
        },
      },
    });
    const files = [{ file_name: 'drawing.txt', content: base64('a drawing') }];
    erp.saveRecord('requisitions', requisition({ needed_by: '2031-05-01T00:00:00.000000Z', files }));
    await makeAll();
    expect(await letters()).toEqual([]);
    const [made, attached] = service.jobs;
    expect(made?.body).toEqual({
      bot,
      description: 'PR-7: Fasteners',
      bidding_deadline: '2031-05-01T00:00:00.000000Z',
      item_fields: [
        [
          { name: 'Part', value: 'Bolt' },
          { name: 'Amount', value: '4.5' },
        ],
        [
          { name: 'Part', value: 'Nut' },
          { name: 'Amount', value: '8' },
        ],
      ],
    });
    expect(attached?.body).toEqual({ sourcing_request: made?.entity, requester: user, files: ['drawing.txt'] });
    expect(attached?.uploaded.get('drawing.txt')).toBe('a drawing');
  });

  test('a file that it cannot take is named to a person, and keeps no other one back', async () => {
    const { erp, service, makeAll, letters } = await start({ make: 'event' });
    const files = [
      { file_name: 'linked.pdf', url: 'https://files.example.com/linked.pdf' },
      { file_name: 'drawing.txt', content: base64('a drawing') },
      { file_name: 'drawing.txt', content: base64('another') },
    ];
    erp.saveRecord('requisitions', requisition({ files }));
    await makeAll();
    expect([...(service.jobs[1]?.uploaded ?? [])]).toEqual([['drawing.txt', 'a drawing']]);
    const [[type, why] = []] = await letters();
    expect(type).toBe('files');
    expect(why).toContain('linked.pdf: the service fetches no URL');
    expect(why).toContain('drawing.txt: another file of its event has the same name');
  });

  test('the words of its refusal are those of errors and field_errors', async () => {
    const { erp, makeAll, letters } = await start({ make: 'event', mapping: { event: { with: { odd: 1 } } } });
    erp.saveRecord('requisitions', requisition());
    await makeAll();
    expect(await letters()).toEqual([
      ['data', expect.stringContaining('was answered with 400: body: Unrecognized key')],
    ]);
  });
});

describe('files', () => {
  const withFile = requisition({ files: [{ file_name: 'drawing.txt', content: base64('a drawing') }] });
  const attach = 'attach-files-to-sourcing-event';

  /** Runs the intake, whose waits are over at once, until this is so. */
  async function runUntil(
    { run, database }: Awaited<ReturnType<typeof start>>,
    what: string,
    isSo: () => Promise<boolean>,
  ) {
    await eventually(what, async () => {
      await run();
      await database.query('update bridge.intake_submissions set next_look = now() where ended is null');
      return isSo();
    });
  }

  test('whose job got no answer are attached by the same job, once', async () => {
    const intake = await start({ make: 'event' });
    const { erp, service, makeAll, status, letters } = intake;
    await makeAll();
    service.loseAnswerOf = attach;
    erp.saveRecord('requisitions', withFile);
    await runUntil(
      intake,
      'the files are attached',
      async () => (await status())?.lag.why === 'in step' && service.uploads.length > 0,
    );
    expect(service.posts).toEqual(['create-sourcing-events 201', `${attach} 201`, `${attach} 201`]);
    expect(service.jobs.map(({ path }) => path)).toEqual(['create-sourcing-events', attach]);
    expect([...(service.jobs[1]?.uploaded ?? [])]).toEqual([['drawing.txt', 'a drawing']]);
    expect(await letters()).toEqual([]);
  });

  test('whose upload fails are uploaded later', async () => {
    const intake = await start({ make: 'event' });
    const { erp, service, makeAll, status, letters } = intake;
    await makeAll();
    service.refuseUpload = 503;
    erp.saveRecord('requisitions', withFile);
    await runUntil(intake, 'it was tried', async () => service.uploads.length > 0);
    service.refuseUpload = undefined;
    await runUntil(
      intake,
      'the files are attached',
      async () => (await status())?.lag.why === 'in step' && service.jobs[1]?.uploaded.size === 1,
    );
    expect(service.jobs).toHaveLength(2);
    expect(await letters()).toEqual([]);
  });

  test('whose upload is refused for a quarter of an hour are named to a person', async () => {
    const intake = await start({ make: 'event' });
    const { erp, database, service, makeAll, letters } = intake;
    await makeAll();
    service.refuseUpload = 403;
    erp.saveRecord('requisitions', withFile);
    await runUntil(intake, 'it was tried', async () => service.uploads.length > 2);
    expect(await letters()).toEqual([]);
    await database.query(
      `update bridge.intake_submissions set ends = now() - interval '15 minutes' where ended is null`,
    );
    await runUntil(intake, 'a person is told', async () => (await letters()).length > 0);
    expect(await letters()).toEqual([
      ['files', expect.stringContaining('drawing.txt: 127.0.0.1 answered an upload with 403.')],
    ]);
  });
});

test('an event whose answer was lost is never made twice, also by a service that keeps neither keys nor references', async () => {
  const intake = await start({ make: 'event' }, await startPublicService({ forgetful: true }));
  const { erp, database, run, service, makeAll, letters } = intake;
  await makeAll();
  service.loseAnswerOf = 'create-sourcing-events';
  erp.saveRecord('requisitions', requisition());
  await eventually('a person is asked', async () => {
    await run();
    // The waits are over, and the quarter of an hour in which the job may still become clear.
    await database.query(
      `update bridge.intake_submissions set next_look = now(), ends = now() - interval '16 minutes' where state = 'uncertain'`,
    );
    return (await letters()).length > 0;
  });
  expect((await letters()).map(([type]) => type)).toEqual(['uncertain']);
  expect(service.posts).toEqual(['create-sourcing-events 201']);
});

test('our own service takes the event, its update and its files in the public names', async () => {
  const service = await startTestService({ profile: 'public' });
  const organisation = await service.organisation();
  const { erp, deps, run, status, letters, makeAll } = await startRequisitions(
    { service, organisation },
    { make: 'event', mapping: { event: { with: { event_contact: { name: 'Ann' }, event_type: 'rfq' } } } },
    inPublic,
  );
  erp.saveRecord('requisitions', requisition({ files: [{ file_name: 'note.txt', content: base64('by hand') }] }));
  await makeAll();
  const [event = {}] = (await deps.client.readFeed('sourcing-events', { pageSize: 100 })).records;
  expect(event).toMatchObject({ reference_id: 'PR-7', lot_count: 2, event_contact: { name: 'Ann' } });
  const held = await loadAttachedFiles(service.db.database, 'sourcing_events', String(event['id']));
  expect(held.map(({ file_name: name, size }) => [name, size])).toEqual([['note.txt', 7]]);
  erp.saveRecord('requisitions', requisition({ name: 'Steel fasteners', files: [] }));
  await eventually('the draft follows', async () => {
    await run();
    const rows = await service.db.database.query<{ name: string }>('select name from service.sourcing_events');
    return (await status())?.lag.why === 'in step' && rows.some(({ name }) => name === 'Steel fasteners');
  });
  expect(await letters()).toEqual([]);
});
