/** Keys that act at the desk for buyers, or for one supplier: what each may do, sees, and is refused. */
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { readActions } from '#platform/audit-log.ts';
import { uploadFile } from '../../harness/files.ts';
import { request } from '../../harness/request.ts';
import { changeSuppliers, createEvent, desk, eventPayload } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';
import { organisationEndpoints } from '../endpoint-tables.ts';

const service = await startTestService();
let everybody: TestOrganisation;
let buyer: TestOrganisation;
let supplier: TestOrganisation;
let other: TestOrganisation;
let event: string;
let draft: string;
let foreign: string;
let question: string;
let file: string;

/** A key of the same organisation. */
async function keyFor(desk: object): Promise<TestOrganisation> {
  const { status, body } = await service.operator('POST', `/admin/organisations/${everybody.id}/api-keys`, {
    name: 'narrow',
    scopes: ['desk'],
    desk,
  });
  expect([status, body.desk]).toEqual([201, desk]);
  return {
    ...everybody,
    key: body.key,
    call: (method, path, sent, headers) =>
      request(method, service.url + path, {
        key: body.key,
        ...(sent !== undefined && { body: sent }),
        ...(headers && { headers }),
      }),
  };
}

beforeAll(async () => {
  everybody = await service.organisation();
  await changeSuppliers(
    everybody,
    { external_id: 'S1', name: 'Acme', contacts: [{ name: 'Ann', email: 'ann@acme.example' }] },
    { external_id: 'S2', name: 'Beta', contacts: [{ name: 'Bob', email: 'bob@beta.example' }] },
  );
  buyer = await keyFor({ as: 'buyer' });
  supplier = await keyFor({ as: 'supplier', supplier: 'S1' });
  other = await keyFor({ as: 'supplier', supplier: 'S2' });
  const payload = eventPayload({ suppliers: ['S1', 'S2'], lots: ['A', 'B'] });
  const historic = { ...payload.bid_sheet.columns[0], name: 'Last year' };
  event = await createEvent(everybody, {
    ...payload,
    tags: [{ name: 'Secret', value: 'tag' }],
    bid_sheet: {
      ...payload.bid_sheet,
      column_roles: { volume: 'Volume', historic_cost: 'Last year' },
      columns: [...payload.bid_sheet.columns, historic],
      lots: [
        {
          name: 'A',
          values: [
            { column: 'Volume', value: '10' },
            { column: 'Last year', value: '987654' },
          ],
        },
        ...payload.bid_sheet.lots.slice(1),
      ],
    },
  });
  foreign = await createEvent(everybody, eventPayload({ suppliers: ['S2'], name: 'Of others' }));
  draft = await createEvent(everybody, eventPayload({ suppliers: ['S1'], name: 'A draft' }));
  const options = ['Yes', 'No'].map((value) => ({ value, satisfies_gating: value === 'Yes' }));
  const asked = await buyer.call('PUT', `/desk/events/${event}/questions`, [
    { identifier: '1', question_text: 'Certified?', question_type: 'GATING', input_type: 'SINGLE_CHOICE', options },
  ]);
  question = asked.body[0].id;
  for (const id of [event, foreign]) await desk(buyer, 'POST', `${id}/publish`);
  file = await uploadFile(supplier);
});

const bid = (of: string, price: string) => ({ supplier: of, lots: [{ lot: 'A', values: { Price: price } }] });

describe("a supplier's key", () => {
  test('bids and answers for its supplier, and for no other', async () => {
    expect((await supplier.call('POST', `/desk/events/${event}/bids`, bid('S1', '3'))).status).toBe(200);
    expect((await other.call('POST', `/desk/events/${event}/bids`, bid('S2', '77712.5'))).status).toBe(200);
    const answers = [{ question_uuid: question, selected_options: ['Yes'], document_file_uuids: [] }];
    expect((await supplier.call('POST', `/desk/events/${event}/answers`, { supplier: 'S1', answers })).status).toBe(
      200,
    );
    for (const [method, path, body] of [
      ['POST', 'bids', bid('S2', '1')],
      ['POST', 'bids/withdraw', { supplier: 'S2', lots: ['A'] }],
      ['POST', 'answers', { supplier: 'S2', answers }],
      ['DELETE', `answers/S2/${question}/files/${file}`, undefined],
    ] as const) {
      const refused = await supplier.call(method, `/desk/events/${event}/${path}`, body);
      expect([path, refused.status, refused.body.detail]).toEqual([
        path,
        403,
        'This API key acts for the supplier "S1" alone.',
      ]);
    }
  });

  test('sees the events that it is invited to, once they are published, and nothing of others in them', async () => {
    const list = await supplier.call('GET', '/desk/events');
    expect(list.body.result.map(({ id }: { id: string }) => id)).toEqual([event]);
    expect(list.body.result[0].allowed).toEqual(['bid', 'answer', 'remove-answer-file']);
    const { status, body } = await supplier.call('GET', `/desk/events/${event}`);
    expect(status).toBe(200);
    expect(body.suppliers.map(({ external_id: id }: { external_id: string }) => id)).toEqual(['S1']);
    expect(body.suppliers[0].gating_satisfied).toBeNull();
    expect(body.bids.map(({ supplier: of }: { supplier: string }) => of)).toEqual(['S1']);
    expect(body.answers).toHaveLength(1);
    expect(body.allowed).toEqual(['bid', 'answer', 'remove-answer-file']);
    const text = JSON.stringify(body);
    for (const hidden of ['S2', 'Beta', 'bob@', '77712', '987654', 'Last year', 'Secret', '"satisfies_gating":true'])
      expect(text).not.toContain(hidden);
    expect([body.scenarios, body.history]).toEqual([[], []]);
    expect(JSON.stringify((await buyer.call('GET', `/desk/events/${event}`)).body)).toContain('987654');
    for (const id of [foreign, draft]) {
      expect((await supplier.call('GET', `/desk/events/${id}`)).status).toBe(404);
      expect((await supplier.call('POST', `/desk/events/${id}/bids`, bid('S1', '3'))).status).toBe(404);
    }
  });
});

test('what is refused stands in the audit log, reads too', async () => {
  expect((await supplier.call('GET', '/desk/sourcing-requests')).status).toBe(403);
  expect((await supplier.call('POST', `/desk/events/${event}/close`)).status).toBe(403);
  expect((await buyer.call('POST', `/desk/events/${event}/bids`, bid('S1', '3'))).status).toBe(403);
  await expect
    .poll(() => readActions(service.db.database, 'service', { outcome: 'refused', limit: 1_000 }))
    .toEqual(
      expect.arrayContaining([
        expect.objectContaining({ what: 'api.call', object: 'GET /desk/sourcing-requests' }),
        expect.objectContaining({ what: 'event.close', object: `event ${event}` }),
        expect.objectContaining({ what: 'bid.submit', object: `event ${event}` }),
      ]),
    );
});

const deskCalls = organisationEndpoints.filter(({ path }) => path.startsWith('/desk/'));
const ofSuppliers = [
  'POST /desk/events/:id/bids',
  'POST /desk/events/:id/bids/withdraw',
  'POST /desk/events/:id/answers',
  'DELETE /desk/events/:id/answers/:supplier/:question/files/:file',
];
const ofBoth = ['POST /desk/files', 'GET /desk/events', 'GET /desk/events/:id'];

test.each(deskCalls.map(({ method, path }) => [`${method} ${path}`, method, path] as const))(
  '%s: a key of the other side gets 403',
  async (call, method, template) => {
    const path = template.replace(':supplier', 'S1').replace(/:\w+/g, () => randomUUID());
    const body = (value: object) => (method === 'GET' ? undefined : value);
    const bySupplier = await supplier.call(method, path, body({ supplier: 'S1' }));
    const byBuyer = await buyer.call(method, path, body({}));
    const mayBoth = ofBoth.includes(call);
    const maySupplier = mayBoth || ofSuppliers.includes(call);
    expect([bySupplier.status === 403, byBuyer.status === 403]).toEqual([!maySupplier, !mayBoth && maySupplier]);
  },
);

test.each([
  [{ scopes: ['feeds'], desk: { as: 'buyer' } }, 'desk'],
  [{ scopes: ['desk', 'feeds'], desk: { as: 'supplier', supplier: 'S1' } }, 'scopes'],
  [{ scopes: ['desk'], desk: { as: 'supplier', supplier: 'S9' } }, 'desk.supplier'],
  [{ scopes: ['desk'], desk: { as: 'supplier' } }, 'desk.supplier'],
  [{ scopes: ['desk'], desk: { as: 'auditor' } }, 'desk'],
])('a key that could not be is refused: %j', async (body, path) => {
  const made = await service.operator('POST', `/admin/organisations/${everybody.id}/api-keys`, { name: 'k', ...body });
  expect([made.status, made.body.errors[0].path]).toEqual([400, expect.stringContaining(path)]);
});

test('the list of keys shows for whom each acts', async () => {
  const { body } = await service.operator('GET', `/admin/organisations/${everybody.id}/api-keys`);
  expect(body.result.map(({ desk: side }: { desk: unknown }) => side)).toEqual([
    null,
    { as: 'buyer' },
    { as: 'supplier', supplier: 'S1' },
    { as: 'supplier', supplier: 'S2' },
  ]);
});
