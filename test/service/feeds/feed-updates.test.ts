/**
 * The API document's table "Feed update conditions", row by row: the triggers that fire and the records that are
 * appended, and no others.
 */
import { describe, expect, test } from 'vitest';
import type { FeedName } from '#contract/feed.ts';
import { eventually } from '../../harness/eventually.ts';
import { uploadFile } from '../../harness/files.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { createEvent, createSuppliers, desk, eventPayload, readEvent } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';
import { type FeedsSeen, watchFeeds } from '../../harness/watch-feeds.ts';

const clock = createManualClock();
const service = await startTestService({ clock });
const inMinutes = (minutes: number) => new Date(clock.nowMs() + minutes * 60_000).toISOString();

interface Stage {
  organisation: TestOrganisation;
  event: string;
  look: () => Promise<FeedsSeen>;
  /** The event's questions by identifier. */
  questions: Record<string, { id: string }>;
  command: (path: string, body?: unknown, method?: string) => Promise<unknown>;
  bid: (supplier: string, prices: Record<string, string>) => Promise<unknown>;
  answer: (identifier: string, answer: object) => Promise<unknown>;
}

const questionsOf = (
  known: Record<string, { id: string }> = {},
  changes: { text?: string; options?: string[] } = {},
) => [
  {
    ...(known['1'] ? { uuid: known['1'].id } : {}),
    identifier: '1',
    question_text: changes.text ?? 'Since when?',
    input_type: 'TEXT',
  },
  {
    ...(known['2'] ? { uuid: known['2'].id } : {}),
    identifier: '2',
    question_text: 'Where?',
    input_type: 'SINGLE_CHOICE',
    options: (changes.options ?? ['Here', 'There']).map((value) => ({ value })),
  },
  { ...(known['3'] ? { uuid: known['3'].id } : {}), identifier: '3', question_text: 'Proof?', input_type: 'FILE' },
];

/** An event in draft with two lots, two suppliers and an RFI. */
async function stage(): Promise<Stage> {
  const organisation = await service.organisation();
  await createSuppliers(organisation, ['S1', 'S2']);
  const look = await watchFeeds(service, organisation);
  const event = await createEvent(organisation, eventPayload({ lots: ['A', 'B'], suppliers: ['S1', 'S2'] }));
  const made = await organisation.call('PUT', `/desk/events/${event}/questions`, questionsOf());
  const questions = Object.fromEntries(
    made.body.map((one: { identifier: string; id: string }) => [one.identifier, one]),
  );
  const command: Stage['command'] = (path, body = {}, method = 'POST') =>
    desk(organisation, method, `${event}/${path}`, body);
  return {
    organisation,
    event,
    look,
    questions,
    command,
    bid: (supplier, prices) =>
      command('bids', {
        supplier,
        lots: Object.entries(prices).map(([lot, price]) => ({ lot, values: { Price: price } })),
      }),
    answer: (identifier, answer) =>
      command('answers', { supplier: 'S1', answers: [{ question_uuid: questions[identifier]?.id, ...answer }] }),
  };
}

/** Published, with bids of S1 for both lots, and two answers. */
async function openStage(): Promise<Stage> {
  const made = await stage();
  await made.command('publish');
  await made.bid('S1', { A: '1', B: '2' });
  await made.answer('1', { value: '1999' });
  await made.answer('2', { selected_options: ['Here'] });
  return made;
}

/** Changes the content of the bids' records, and updates no feed by itself. */
const buyerChanges = ({ command }: Stage) =>
  command('buyer-values', { lots: [{ lot: 'B', values: { Volume: '100' } }] }, 'PUT');

async function awarded({ command }: Stage, share = '1'): Promise<void> {
  const awards = [{ lot: 'A', supplier: 'S1', share_awarded: share }];
  await command('scenarios/best', { awards }, 'PUT');
  await command('award', { scenario: 'best' });
}

const bothBids = [
  { lot_name: 'A', bids: [{ value: '10' }] },
  { lot_name: 'B', bids: [{ value: '20' }] },
];
const costlier = [{ lot_name: 'B', bids: [{ value: '200' }] }];
const bothAnswers = [{ value: '1999' }, { selected_options: [{ value: 'Here' }] }];

interface Row {
  title: string;
  from?: () => Promise<Stage>;
  /** Steps before the tested one; their effects are not checked. */
  first?: (stage: Stage) => Promise<unknown>;
  act: (stage: Stage) => Promise<unknown>;
  /** For each feed of the row the appended records, in their order. */
  expected: Partial<Record<FeedName, object[]>>;
  hidden?: Partial<Record<FeedName, number>>;
}

const rows: Row[] = [
  {
    title: 'event published',
    from: stage,
    act: ({ command }) => command('publish'),
    expected: {
      'sourcing-events': [{ status: 'OPEN', rounds: [{ status: 'ACTIVE' }] }],
      'latest-bids': [],
      'rfi-responses': [],
    },
  },
  {
    title: 'event without an RFI published: its row all the same',
    from: async () => {
      const made = await stage();
      await made.organisation.call('PUT', `/desk/events/${made.event}/questions`, []);
      return made;
    },
    act: ({ command }) => command('publish'),
    expected: { 'sourcing-events': [{ status: 'OPEN' }], 'latest-bids': [], 'rfi-responses': [] },
  },
  {
    title: 'event re-published: bids and answers come back',
    first: ({ command }) => command('unpublish'),
    act: ({ command }) => command('publish'),
    expected: {
      'sourcing-events': [{ status: 'OPEN', rounds: [{ status: 'ACTIVE' }] }],
      'latest-bids': bothBids,
      'rfi-responses': bothAnswers,
    },
  },
  { title: 'event paused', act: ({ command }) => command('pause'), expected: { 'rfi-responses': [] } },
  {
    title: 'event resumed, after the buyer changed values',
    first: async (made) => {
      await made.command('pause');
      await buyerChanges(made);
    },
    act: ({ command }) => command('resume'),
    // The events feed shows the event as it was when it was published: without bids.
    expected: {
      'sourcing-events': [{ status: 'OPEN', suppliers: [{ participated: true }, { participated: false }] }],
      'latest-bids': costlier,
      'rfi-responses': [],
    },
  },
  {
    title: 'event resumed once more: nothing has changed since',
    first: async ({ command }) => {
      await command('pause');
      await command('resume');
      await command('pause');
    },
    act: ({ command }) => command('resume'),
    expected: { 'sourcing-events': [], 'latest-bids': [], 'rfi-responses': [] },
  },
  {
    title: 'a bidding round closed by command',
    first: buyerChanges,
    act: ({ command }) => command('rounds/1/close'),
    expected: {
      'sourcing-events': [{ status: 'OPEN', rounds: [{ status: 'CLOSED' }] }],
      'latest-bids': costlier,
      'rfi-responses': [],
    },
  },
  {
    title: 'a bidding round closed by time',
    first: async (made) => {
      await buyerChanges(made);
      await made.command('rounds/1/extend', { ends: inMinutes(5) });
    },
    act: async ({ organisation, event }) => {
      clock.advance(5 * 60_000);
      await service.service.sweep();
      await roundIsClosed(organisation, event);
    },
    expected: {
      'sourcing-events': [{ status: 'OPEN', rounds: [{ status: 'CLOSED' }] }],
      'latest-bids': costlier,
      'rfi-responses': [],
    },
  },
  {
    title: 'event closed after all rounds: an award record for every lot',
    first: async (made) => {
      await awarded(made);
      await buyerChanges(made);
    },
    act: ({ command }) => command('close'),
    expected: {
      'sourcing-events': [
        { status: 'CLOSED', rounds: [{ status: 'COMPLETE', awarded_cost: '10', awarded_lot_count: 1 }] },
      ],
      'latest-bids': costlier,
      awards: [
        { lot_name: 'A', scenario_name: 'best', awards: [{ share_awarded: '1', cost: '10' }] },
        { lot_name: 'B', awards: [] },
      ],
      'rfi-responses': [],
    },
  },
  {
    title: 'event closed without a scenario: every lot is awarded to nobody',
    act: ({ command }) => command('close'),
    expected: {
      'sourcing-events': [{ status: 'CLOSED', rounds: [{ status: 'CLOSED' }] }],
      'latest-bids': [],
      awards: [{ awards: [] }, { awards: [] }],
      'rfi-responses': [],
    },
  },
  {
    title: 'event reopened and award changed, then re-closed: only the impacted lot',
    first: async (made) => {
      await awarded(made);
      await made.command('close');
      await made.command('reopen');
      await awarded(made, '0.5');
    },
    act: ({ command }) => command('close'),
    expected: {
      'sourcing-events': [{ status: 'CLOSED', rounds: [{ status: 'COMPLETE', awarded_cost: '5' }] }],
      'latest-bids': [],
      awards: [{ lot_name: 'A', awards: [{ share_awarded: '0.5', cost: '5' }] }],
      'rfi-responses': [],
    },
  },
  {
    title: 'event reopened and un-awarded, then re-closed: empty awards for the lot that had one',
    first: async (made) => {
      await awarded(made);
      await made.command('close');
      await made.command('reopen');
      await made.command('award', { scenario: null });
    },
    act: ({ command }) => command('close'),
    expected: {
      'sourcing-events': [{ status: 'CLOSED', rounds: [{ status: 'CLOSED' }] }],
      'latest-bids': [],
      awards: [{ lot_name: 'A', awards: [] }],
      'rfi-responses': [],
    },
  },
  {
    title: 'event reopened and re-closed with the award as it was: no award changes',
    first: async (made) => {
      await awarded(made);
      await made.command('close');
      await made.command('reopen');
    },
    act: ({ command }) => command('close'),
    expected: {
      'sourcing-events': [{ status: 'CLOSED', rounds: [{ status: 'COMPLETE' }] }],
      'latest-bids': [],
      awards: [],
      'rfi-responses': [],
    },
  },
  {
    title: 'event deleted while paused',
    first: ({ command }) => command('pause'),
    act: ({ command }) => command('delete'),
    expected: { 'sourcing-events': [{ status: 'DELETED' }] },
    hidden: { 'latest-bids': 2, 'rfi-responses': 2 },
  },
  {
    title: 'event deleted after it was closed: its awards are no longer served',
    first: async (made) => {
      await awarded(made);
      await made.command('close');
    },
    act: ({ command }) => command('delete'),
    expected: { 'sourcing-events': [{ status: 'DELETED' }] },
    hidden: { 'latest-bids': 2, awards: 2, 'rfi-responses': 2 },
  },
  {
    title: 'draft deleted',
    from: stage,
    act: ({ command }) => command('delete'),
    expected: { 'sourcing-events': [{ status: 'DELETED' }] },
  },
  {
    title: 'a supplier submits a bid: the records that it changed',
    act: ({ bid }) => bid('S1', { A: '1', B: '3' }),
    expected: { 'latest-bids': [{ lot_name: 'B', bids: [{ value: '30' }] }] },
  },
  {
    title: 'a supplier submits the same bid again: the trigger, and no record',
    act: ({ bid }) => bid('S1', { A: '1', B: '2' }),
    expected: { 'latest-bids': [] },
  },
  {
    title: 'a supplier submits an incomplete bid: it has no record',
    act: ({ command }) => command('bids', { supplier: 'S2', lots: [{ lot: 'A', values: {} }] }),
    expected: { 'latest-bids': [] },
  },
  {
    title: 'event reopened with bids changed',
    first: async ({ command }) => {
      await command('close');
      await command('reopen');
    },
    act: ({ bid }) => bid('S1', { A: '5', B: '2' }),
    expected: { 'latest-bids': [{ lot_name: 'A', bids: [{ value: '50' }] }] },
  },
  {
    title: 'round reopened with a bid withdrawn',
    first: async ({ command }) => {
      await command('rounds/1/close');
      await command('rounds/1/reopen');
    },
    act: ({ command }) => command('bids/withdraw', { supplier: 'S1', lots: ['A'] }),
    expected: { 'latest-bids': [{ lot_name: 'A', bids: [], bid_sheet_values: [] }] },
  },
  {
    title: 'buyer edits bids after a round closes',
    first: ({ command }) => command('rounds/1/close'),
    act: ({ command }) => command('bids', { supplier: 'S1', lots: [{ lot: 'B', values: { Price: '7' } }] }, 'PATCH'),
    expected: { 'latest-bids': [{ lot_name: 'B', bids: [{ value: '70' }] }] },
  },
  {
    title: 'a supplier confirms RFI answers',
    act: ({ answer }) => answer('1', { value: '2001' }),
    expected: { 'rfi-responses': [{ value: '2001' }] },
  },
  {
    title: 'a supplier confirms RFI answers in bulk: the ones that are new',
    act: ({ command, questions }) =>
      command('answers', {
        supplier: 'S1',
        answers: [
          { question_uuid: questions['1']?.id, value: '2001' },
          { question_uuid: questions['2']?.id, selected_options: ['Here'] },
        ],
      }),
    expected: { 'rfi-responses': [{ value: '2001' }] },
  },
  {
    title: 'a supplier adds a response attachment',
    act: async (made) => made.answer('3', { document_file_uuids: [await uploadFile(made.organisation)] }),
    expected: { 'rfi-responses': [{ document_file_uuids: [expect.any(String)] }] },
  },
  {
    title: 'a supplier removes a response attachment',
    first: async (made) => {
      const files = [await uploadFile(made.organisation), await uploadFile(made.organisation)];
      await made.answer('3', { document_file_uuids: files });
    },
    act: async ({ organisation, event, questions }) => {
      const body = await readEvent(organisation, event);
      const [file] = body.answers.at(-1).document_file_uuids;
      const answer = await organisation.call(
        'DELETE',
        `/desk/events/${event}/answers/S1/${questions['3']?.id}/files/${file}`,
      );
      expect(answer.status).toBeLessThan(300);
    },
    expected: { 'rfi-responses': [{ document_file_uuids: [expect.any(String)] }] },
  },
  {
    title: 'a purchaser edits the text of a question: no response changes',
    act: ({ command, questions }) =>
      command('questions', questionsOf(questions, { text: 'Since when, exactly?' }), 'PUT'),
    expected: { 'rfi-responses': [] },
  },
  {
    title: 'a purchaser deletes an option',
    act: ({ command, questions }) => command('questions', questionsOf(questions, { options: ['Here'] }), 'PUT'),
    expected: { 'rfi-responses': [] },
  },
];

const roundIsClosed = (organisation: TestOrganisation, event: string) =>
  eventually('the round is closed in the feed', async () => {
    const { body } = await organisation.call('GET', `/api/feeds/sourcing-events?id=${event}`);
    return body.data[0].rounds[0].status === 'CLOSED';
  });

describe('updates exactly the feeds of its row', () => {
  test.each(rows)('$title', async ({ from = openStage, first, act, expected, hidden = {} }) => {
    const made = await from();
    await first?.(made);
    await made.look();
    clock.advance(1_000);
    await act(made);
    const seen = await made.look();
    expect([...seen.fired].sort()).toEqual(Object.keys(expected).sort());
    for (const feed of new Set([...Object.keys(seen.appended), ...Object.keys(expected)]) as Set<FeedName>) {
      expect([feed, seen.appended[feed] ?? []]).toMatchObject([feed, expected[feed] ?? []]);
      expect([feed, seen.appended[feed]?.length ?? 0]).toEqual([feed, expected[feed]?.length ?? 0]);
    }
    expect(Object.fromEntries(Object.entries(seen.hidden).map(([feed, ids]) => [feed, ids.length]))).toEqual(hidden);
  });

  test('event created in draft; its notification names it and the newest `modified`', async () => {
    const organisation = await service.organisation();
    const look = await watchFeeds(service, organisation);
    const event = await createEvent(organisation, eventPayload());
    const { fired, appended, payloads } = await look();
    expect(fired).toEqual(['sourcing-events']);
    expect(appended).toEqual({ 'sourcing-events': [expect.objectContaining({ id: event, status: 'DRAFT' })] });
    expect(payloads).toEqual([
      {
        sourcing_event: event,
        sourcing_event_name: 'Office chairs',
        feed_modified: appended['sourcing-events']?.[0].modified,
      },
    ]);
  });
});

describe('updates no feed by itself, and the record catches up at the next update', () => {
  const silent: Pick<Row, 'title' | 'from' | 'first' | 'act'>[] = [
    { title: 'add a round', act: ({ command }) => command('rounds', { ends: inMinutes(60) }) },
    { title: 'add a round to a draft', from: stage, act: ({ command }) => command('rounds', { ends: inMinutes(60) }) },
    { title: 'extend a round', act: ({ command }) => command('rounds/1/extend', { ends: inMinutes(60) }) },
    {
      title: 'reopen a round',
      first: ({ command }) => command('rounds/1/close'),
      act: ({ command }) => command('rounds/1/reopen'),
    },
    { title: 'reopen an event', first: ({ command }) => command('close'), act: ({ command }) => command('reopen') },
    { title: 'invite', act: ({ command }) => command('invitations', { suppliers: ['S1'] }) },
    { title: 'set buyer values', act: buyerChanges },
    { title: 'save a scenario and award it', act: (made) => awarded(made) },
    {
      title: 'take an award back',
      first: (made) => awarded(made),
      act: ({ command }) => command('award', { scenario: null }),
    },
  ];

  test.each(silent)('$title', async ({ from = openStage, first, act }) => {
    const made = await from();
    await first?.(made);
    await made.look();
    await act(made);
    expect(await made.look()).toEqual({ fired: [], payloads: [], appended: {}, hidden: {} });
  });

  test('unpublish: bids and answers are no longer served, the record of the event does not change', async () => {
    const made = await openStage();
    await made.look();
    await made.command('unpublish');
    const seen = await made.look();
    expect(seen).toMatchObject({ fired: [], payloads: [], appended: {} });
    expect(Object.keys(seen.hidden).sort()).toEqual(['latest-bids', 'rfi-responses']);
    // An edit of the draft shows no records again.
    await made.command('questions', questionsOf(made.questions, { text: 'Since when at all?' }), 'PUT');
    expect(await made.look()).toMatchObject({ fired: ['rfi-responses'], appended: {}, hidden: {} });
  });
});

test('re-published records are newer than all before, and the event has a new time of publication', async () => {
  const made = await openStage();
  const before = await made.look();
  await made.command('unpublish');
  clock.advance(60_000);
  await made.command('publish');
  const after = await made.look();
  const newest = (seen: FeedsSeen, feed: FeedName) => seen.appended[feed]?.at(-1).modified ?? '';
  for (const feed of ['latest-bids', 'rfi-responses'] as const)
    expect(after.appended[feed]?.[0].modified > newest(before, feed)).toBe(true);
  const [first] = before.appended['sourcing-events'] ?? [];
  const [second] = after.appended['sourcing-events'] ?? [];
  expect(second.published > first.published).toBe(true);
  expect(second.suppliers).toMatchObject([{ invite_count: 2 }, { invite_count: 2 }]);
});

test('a refused command fires nothing and appends nothing', async () => {
  const made = await openStage();
  await made.look();
  const body = {
    supplier: 'S1',
    lots: [
      { lot: 'A', values: { Price: '9' } },
      { lot: 'Z', values: { Price: '9' } },
    ],
  };
  const refused = async (path: string, sent: object) =>
    (await made.organisation.call('POST', `/desk/events/${made.event}/${path}`, sent)).status;
  expect([await refused('bids', body), await refused('publish', {}), await refused('rounds/1/reopen', {})]).toEqual([
    400, 409, 409,
  ]);
  expect(await made.look()).toEqual({ fired: [], payloads: [], appended: {}, hidden: {} });
});
