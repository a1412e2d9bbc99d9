/** What must be true at the end of the story of buying-story.ts, at the service and in the ERP, whatever was killed. */
import { expect } from 'vitest';
import {
  arrives,
  callService,
  crowdOrders,
  expectedCalls,
  expectedQuotations,
  files,
  heldAward,
  readEvent,
  readSuppliers,
  renamedVendor,
  type Stage,
  template,
  templateColumns,
  templateQuestion,
  titles,
  vendors,
} from './buying-story.ts';
import { until } from './program-process.ts';

/** Each supplier, event, question and file is at the service once. */
export async function expectService(stage: Stage): Promise<void> {
  const names = new Map<string, string>([...vendors, renamedVendor].map(({ number, name }) => [number, name]));
  const suppliers = await readSuppliers(stage);
  expect(
    suppliers
      .map(({ external_id: id, name, archived, contacts }) => [id, name, archived, contacts.map(({ email }) => email)])
      .toSorted(byText(String)),
  ).toEqual([...names].map(([number, name]) => [number, name, false, [`sales@${number.toLowerCase()}.example`]]));

  const events = await readFeed(stage, 'sourcing-events', 10);
  const shown = events.map(({ name, reference_id, status, lot_count, columns }) => [
    reference_id ?? name,
    status,
    lot_count,
    (columns as { name: string }[]).map((column) => column.name),
  ]);
  expect(shown.toSorted(byText(String))).toEqual([
    [template.name, 'DRAFT', 1, templateColumns],
    ['PR-1', 'CLOSED', 3, templateColumns],
    ['PR-2', 'CLOSED', 2, templateColumns],
    ['PR-3', 'CLOSED', 450, templateColumns],
    ['PR-4', 'CLOSED', 1, templateColumns],
  ]);
  for (const [number, name] of Object.entries(titles)) {
    const event = await readEvent(stage, number);
    expect(event).toMatchObject({
      name,
      type: 'RFQ',
      primary_cost_calculation: template.primary_cost_calculation,
      event_contact: template.business_contact,
      questions: [templateQuestion],
    });
    expect(await bytesOf(stage, event?.['files'] as { uuid: string; file_name: string }[])).toEqual(
      Object.entries(files[number] ?? {}).map(([file, bytes]) => [file, bytes.toString('base64')]),
    );
  }
  const awards = await readFeed(stage, 'awards', 200);
  expect(awards).toHaveLength(3 + 2 + 450 + 1);

  const { result } = await callService(stage, 'GET', '/api/jobs/?page_size=200');
  const jobs = (result as { type: string; status: string }[]).map(({ type, status }) => `${type} ${status}`);
  // An update whose answer was lost is sent again.
  expect(jobs.toSorted(byText(String)).filter((job) => !/^(UPDATE|GENERATE)_\w+ COMPLETED$/.test(job))).toEqual([
    'ATTACH_FILES_TO_SOURCING_EVENT COMPLETED',
    'ATTACH_FILES_TO_SOURCING_EVENT COMPLETED',
    'CREATE_SOURCING_EVENT COMPLETED',
    ...Object.keys(titles).map(() => 'CREATE_SOURCING_EVENT_FROM_TEMPLATE COMPLETED'),
  ]);
}

/** Every record of a feed, page after page; the next page stands in the header Link alone. */
async function readFeed({ organisation }: Stage, feed: string, pageSize: number): Promise<Record<string, unknown>[]> {
  const records = [];
  for (let path: string | undefined = `/api/feeds/${feed}?page_size=${pageSize}`; path !== undefined; ) {
    const { status, body, headers } = await organisation.call('GET', path);
    expect([status, body.next]).toEqual([200, null]);
    records.push(...body.data);
    const next = /<([^>]+)>; *rel="next"/.exec(headers.get('link') ?? '')?.[1];
    path = next === undefined ? undefined : next.slice(new URL(next).origin.length);
  }
  return records;
}

/** Name and bytes of each file, as a download link gives them. */
async function bytesOf(stage: Stage, held: readonly { uuid: string; file_name: string }[]): Promise<string[][]> {
  if (held.length === 0) return [];
  const body = { file_uuids: held.map(({ uuid }) => uuid) };
  const { id } = await callService(stage, 'POST', '/api/jobs/generate-file-download-links', body);
  const { detail } = await until('the links are made', async () => {
    const job = await callService(stage, 'GET', `/api/jobs/${String(id)}`);
    return (
      job['status'] === 'COMPLETED' && (job as { detail: { data: { file_name: string; download_url: string }[] } })
    );
  });
  return Promise.all(
    detail.data.map(async ({ file_name: name, download_url: url }) => {
      const answer = await fetch(url);
      return [name, Buffer.from(await answer.arrayBuffer()).toString('base64')];
    }),
  );
}

/** Every award was written as often as it changed, in both flows, and the ERP knows what became of its requisitions. */
export async function expectErp({ erp }: Stage): Promise<void> {
  const calls = Map.groupBy(await erp.orderCalls(), ({ order }) => order);
  const crowd = crowdOrders.map((each) => ({ ...each, calls: calls.get(each.order) ?? [] }));
  const others = [...calls].filter(([order]) => crowdOrders.every((each) => each.order !== order));
  expect(Object.fromEntries(others)).toEqual(expectedCalls);
  // An award is carried over as its lots are read, page after page: no call may repeat what is there, or take lots away.
  for (const { order, total, lines, calls: made } of crowd) {
    expect(made.map(({ action }) => action)).toEqual(made.map((_, index) => (index === 0 ? 'create' : 'amend')));
    expect(made.at(-1)).toMatchObject({ order, total, lines });
    for (const [index, { lines: sent }] of made.entries()) {
      expect(sent.length).toBeGreaterThan(made[index - 1]?.lines.length ?? 0);
      expect(sent).toEqual(lines.filter((line) => sent.includes(line)));
    }
  }

  const lasts = [...Object.values(expectedCalls), crowdOrders].flatMap((made) =>
    made === crowdOrders ? made : made.slice(-1),
  );
  const held = await erp.heldAwards();
  expect(held).toMatchObject(lasts.map(heldAward).toSorted(byText(({ order }) => order)));
  for (const { order, version, kept } of held) {
    const count = expectedCalls[order]?.length ?? version;
    expect([order, version, kept]).toEqual([order, count, count]);
  }
  await arrives('quotations', () => erp.heldQuotations()).toEqual(expectedQuotations);
  const answers = 'select question_identifier as question, value from sourcing.rfi_answer';
  await arrives('answers', () => erp.database.query(answers)).toEqual([{ question: '1', value: 'DAP Rotterdam' }]);
  // What became of the award that was taken back is not told anew.
  const news = `select requisition, status from bridge_news.requisition_news where requisition <> 'PR-2' order by 1`;
  await arrives('what became of each requisition', () => erp.database.query(news)).toEqual(
    ['PR-1', 'PR-3', 'PR-4'].map((requisition) => ({ requisition, status: 'awarded' })),
  );
}

function byText<T>(textOf: (each: T) => string): (one: T, other: T) => number {
  return (one, other) => (textOf(one) < textOf(other) ? -1 : 1);
}
