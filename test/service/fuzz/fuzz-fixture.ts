/**
 * The fixture of the fuzz tests: a service whose clock stands still, with two organisations that have data for every
 * command; and a digest of the whole database, which can be restored to its first state.
 */
import type { Database } from '#platform/database/database.ts';
import { createLogger } from '#platform/log.ts';
import { eventually } from '../../harness/eventually.ts';
import { uploadFile } from '../../harness/files.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { changeSuppliers, createEvent, createRequest, desk, endedJob } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService, type TestService } from '../../harness/test-service.ts';
import { startTokenServer } from '../../harness/token-server.ts';
import { startWebhookReceiver } from '../../harness/webhook-receiver.ts';

/** The ids of an organisation's data: every command has an event, a file, ... to work on. */
export interface OrganisationData {
  readonly events: {
    readonly template: string;
    readonly draft: string;
    /** With bids, answers and a scenario. */
    readonly open: string;
    readonly dutch: string;
    readonly paused: string;
    /** Its only round is closed. */
    readonly between: string;
    /** Its only round was reopened. */
    readonly again: string;
    /** With an award. */
    readonly closed: string;
  };
  /** The questions of the open event. */
  readonly questions: {
    readonly text: string;
    readonly number: string;
    readonly choice: string;
    readonly file: string;
  };
  readonly files: { readonly offer: string; readonly proof: string };
  readonly request: string;
  readonly webhook: string;
  /** To that webhook, of a test. */
  readonly delivery: string;
  readonly submission: string;
  /** A completed job of each type, by the last part of its path. */
  readonly jobs: Readonly<Record<string, string>>;
  readonly tokenUrl: string;
}

export interface FuzzFixture extends OrganisationData {
  readonly service: TestService;
  /** The organisation whose key makes the calls. */
  readonly organisation: TestOrganisation;
  /**
   * The organisation that the operator's calls change; a separate one, so that they do not affect the calls of the
   * other.
   */
  readonly operated: TestOrganisation & {
    /** The id of an operator. */
    readonly apiKey: string;
    readonly webhook: string;
    readonly delivery: string;
  };
  readonly receiverUrl: string;
  /** Returns the errors and warnings that the service has logged since the last call. */
  readonly takeLoggedProblems: () => string[];
  /** Waits until no job, submission or delivery is pending or running. */
  readonly waitUntilIdle: () => Promise<void>;
  /**
   * A digest of each table, except for the audit log, the counted requests and the uploads: a refused upload leaves its
   * row for a day.
   */
  readonly digest: () => Promise<Record<string, string>>;
  /** Restores the database to its state when the fixture was ready. */
  readonly restore: () => Promise<void>;
}

const nowMs = Date.UTC(2030, 0, 1);
/** The question ids of an event; its number is their last digit, because ids are unique within an organisation. */
const questionIds = (event: number) => ({
  text: `11111111-1111-4111-8111-11111111111${event}`,
  number: `22222222-2222-4222-8222-22222222222${event}`,
  choice: `33333333-3333-4333-8333-33333333333${event}`,
  file: `44444444-4444-4444-8444-44444444444${event}`,
});

/** A payload with every member that a create job can have. `event` is the number for its question ids. */
export function fullPayload(event: number, fixture: Pick<OrganisationData, 'request' | 'files'>) {
  const ids = questionIds(event);
  return {
    name: 'Office chairs',
    description: 'For the new floor',
    reference_id: 'REF-1',
    event_type: 'RFQ',
    primary_currency: 'EUR',
    secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }],
    tags: [{ name: 'Region', value: 'EMEA' }],
    category: 'Furniture',
    event_contact: { name: 'Bea Buyer', email: 'bea@buyer.example' },
    suppliers: [{ external_id: 'S1', contacts: ['ann@s1.example'] }, { external_id: 'S2' }],
    rounds: [{ ends: '2030-06-01T00:00:00Z' }],
    questions: [
      {
        uuid: ids.text,
        identifier: '1',
        question_text: 'Where are they eventCount?',
        description: 'The country will do',
        question_type: 'MANDATORY',
        input_type: 'TEXT',
        categories: ['Origin'],
        allow_comments: true,
        supporting_documents_enabled: true,
        attachment_file_uuids: [fixture.files.offer],
      },
      {
        uuid: ids.number,
        identifier: '1.1',
        question_text: 'At what price?',
        input_type: 'CURRENCY',
        parent_question_uuid: ids.text,
        currency: 'USD',
        minimum_value: '0.5',
        maximum_value: '1000',
        precision: 2,
      },
      {
        uuid: ids.choice,
        identifier: '2',
        question_text: 'Are they fireproof?',
        question_type: 'GATING',
        input_type: 'MULTIPLE_CHOICE',
        options: [{ value: 'yes', satisfies_gating: true }, { value: 'no' }],
      },
      { uuid: ids.file, identifier: '3', question_text: 'The certificate', input_type: 'FILE' },
    ],
    sourcing_requests: [fixture.request],
    primary_cost_calculation: 'ROUND([Volume] * [Price] + [Freight], 2)',
    bid_sheet: {
      column_roles: { lot_identifier: 'Item', volume: 'Volume', historic_cost: 'Before', description: 'Item' },
      columns: [
        { name: 'Item', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'TEXT' },
        { name: 'Volume', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'NUMBER', precision: 0 },
        { name: 'Before', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'CURRENCY', precision: 2 },
        { name: 'Price', column_type: 'INPUT', input_by: 'SUPPLIER_INPUT', input_type: 'CURRENCY', precision: 2 },
        {
          name: 'Freight',
          column_type: 'INPUT',
          input_by: 'SUPPLIER_INPUT',
          input_type: 'NUMBER',
          precision: 2,
          scope: 'EVENT',
        },
        { name: 'Days', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'NUMBER', scope: 'EVENT' },
        { name: 'Each', column_type: 'FORMULA', formula: 'IF(Volume > 0, Price, 0)' },
      ],
      lots: [
        {
          name: 'A',
          values: [
            { column: 'Item', value: 'A chair' },
            { column: 'Volume', value: '10' },
            { column: 'Before', value: '900', currency: 'USD' },
          ],
          sourcing_request: fixture.request,
        },
        { name: 'B', values: [{ column: 'Volume', value: '5' }] },
      ],
      global_values: [{ column: 'Days', value: '30' }],
    },
    settings: { is_test: true, is_template: false, close_after_last_round: false },
  };
}

const requestPayload = {
  name: 'Chairs wanted',
  description: 'Sixty of them',
  reference_id: 'REQ-1',
  requested_by: 'Rob',
  needed_by: '2030-05-01',
  category: 'Furniture',
  tags: [{ name: 'Region', value: 'EMEA' }],
  items: [
    { name: 'Chair', description: 'with arms', quantity: '60', unit: 'pc', target_price: '99.5', currency: 'EUR' },
  ],
};

type JobReferences = Pick<OrganisationData, 'request' | 'files' | 'events' | 'tokenUrl'>;

function updatePayload(fixture: JobReferences): object {
  const { name, tags, bid_sheet } = fullPayload(9, fixture);
  return { sourcing_event: fixture.events.draft, name, tags, bid_sheet };
}

/** A payload of each job type, by the last part of its path. The events and requests that it names exist. */
export const jobPayloads: Readonly<Record<string, (fixture: JobReferences, event?: number) => object>> = {
  'create-sourcing-events': (fixture, event = 9) => fullPayload(event, fixture),
  'create-sourcing-events-from-template': ({ events }) => ({ template: events.template, name: 'From the template' }),
  'create-sourcing-requests': () => requestPayload,
  'update-sourcing-event': (fixture) => updatePayload(fixture),
  'update-sourcing-events': (fixture) => updatePayload(fixture),
  'attach-files-to-sourcing-request': (fixture) => ({
    sourcing_request: fixture.request,
    files: [{ file_name: 'a.txt', content_type: 'text/plain; charset=utf-8', content: 'aGVsbG8=' }],
  }),
  'attach-files-to-sourcing-event': (fixture) => ({
    sourcing_event: fixture.events.draft,
    files: [
      { file_name: 'a.txt', content_type: 'text/plain', content: 'aGVsbG8=' },
      // Any answer with status 200 is a file.
      { file_name: 'b.txt', url: fixture.tokenUrl },
    ],
  }),
  'generate-file-download-links': (fixture) => ({ file_uuids: [fixture.files.offer, fixture.files.proof] }),
};

const bid = (supplier: string, price: string) => ({
  supplier,
  lots: [
    { lot: 'A', values: { Price: price } },
    { lot: 'B', values: { Price: { value: price, currency: 'USD' } } },
  ],
  global: { Freight: '12.5' },
});

const answers = (event: number, files: OrganisationData['files'], comment: string) => {
  const ids = questionIds(event);
  return {
    supplier: 'S1',
    answers: [
      { question_uuid: ids.text, value: 'Norway', comment, document_file_uuids: [files.offer] },
      { question_uuid: ids.number, value: '12.50', currency: 'EUR' },
      { question_uuid: ids.choice, selected_options: ['yes'] },
      { question_uuid: ids.file, document_file_uuids: [files.proof] },
    ],
  };
};

/** Starts a service and creates its data. */
export async function createFuzzFixture(): Promise<FuzzFixture> {
  const logged: string[] = [];
  const service = await startTestService({
    clock: createManualClock(nowMs),
    log: createLogger({
      name: 'service',
      level: 'warn',
      destination: { write: (line: string) => void logged.push(line) },
    }),
  });
  const { database } = service.db;
  const receiver = await startWebhookReceiver();
  const organisation = await service.organisation();
  const operated = await createOperatedOrganisation(service, receiver.url);
  const tokenServer = await startTokenServer();
  const data = await createOrganisationData(service, organisation, {
    receiverUrl: receiver.url,
    tokenUrl: tokenServer.url,
  });
  const waitUntilIdle = () => waitForIdleDatabase(database);
  await waitUntilIdle();
  return {
    ...data,
    service,
    organisation,
    operated,
    receiverUrl: receiver.url,
    takeLoggedProblems: () => logged.splice(0),
    waitUntilIdle,
    ...(await takeSnapshot(database)),
  };
}

/**
 * Creates data with the same names in every organisation. `mark` is a part of every other text, to tell the data apart.
 */
export async function createOrganisationData(
  service: TestService,
  organisation: TestOrganisation,
  { receiverUrl, tokenUrl, mark = '' }: { receiverUrl: string; tokenUrl: string; mark?: string },
): Promise<OrganisationData> {
  await service.operator('POST', `/admin/organisations/${organisation.id}/supplier-attributes`, { name: 'Country' });
  const submission = await changeSuppliers(
    organisation,
    ...['S1', 'S2', 'S3'].map((id) => ({
      external_id: id,
      name: `Supplier ${id}${mark}`,
      fields: { Country: `NO${mark}` },
      contacts: [{ name: `Ann${mark}`, email: `ann@${id.toLowerCase()}.example` }],
    })),
  );
  const files = {
    offer: await uploadFile(organisation, `offer${mark}.pdf`),
    proof: await uploadFile(organisation, `proof${mark}.pdf`),
  };
  const request = await createRequest(organisation, { ...requestPayload, description: `Sixty of them${mark}` });
  let eventCount = 0;
  const newEvent = (changes: object = {}) => {
    eventCount += 1;
    const payload = {
      ...fullPayload(eventCount, { request, files }),
      description: `For the new floor${mark}`,
      ...changes,
    };
    return createEvent(organisation, payload);
  };
  const published = async (changes: object = {}) => {
    const id = await newEvent(changes);
    await desk(organisation, 'POST', `${id}/publish`);
    return id;
  };
  const withBids = async () => {
    const id = await published();
    await desk(organisation, 'POST', `${id}/bids`, bid('S1', '9.50'));
    await desk(organisation, 'POST', `${id}/bids`, bid('S2', '8.25'));
    await desk(organisation, 'PUT', `${id}/scenarios/best`, {
      awards: [{ lot: 'A', supplier: 'S1', share_awarded: '0.6' }],
    });
    return id;
  };
  const open = await withBids();
  const questions = questionIds(eventCount);
  await desk(organisation, 'POST', `${open}/answers`, answers(eventCount, files, `mostly${mark}`));
  const between = await withBids();
  await desk(organisation, 'POST', `${between}/rounds/1/close`);
  const again = await withBids();
  await desk(organisation, 'POST', `${again}/rounds/1/close`);
  await desk(organisation, 'POST', `${again}/rounds/1/reopen`, { ends: '2030-07-01' });
  const closed = await withBids();
  await desk(organisation, 'POST', `${closed}/award`, { scenario: 'best' });
  await desk(organisation, 'POST', `${closed}/close`);
  const paused = await published();
  await desk(organisation, 'POST', `${paused}/pause`);
  const dutch = await published({ event_type: 'DUTCH', questions: [] });
  const template = await newEvent({ settings: { is_template: true } });
  const draft = await newEvent();
  const events = { template, draft, open, dutch, paused, between, again, closed };
  const jobs: Record<string, string> = {};
  for (const [path, payload] of Object.entries(jobPayloads)) {
    const ended = await endedJob(organisation, `/api/jobs/${path}`, payload({ request, files, events, tokenUrl }, 0));
    if (ended.status !== 'COMPLETED') throw new Error(`${path}: ${JSON.stringify(ended.errors)}`);
    jobs[path] = ended.id;
  }
  const webhook = await createTestWebhook(organisation, receiverUrl, mark);
  return {
    events,
    questions,
    files,
    request,
    webhook,
    delivery: await testDelivery(organisation, webhook),
    submission: submission.uuid,
    jobs,
    tokenUrl,
  };
}

async function createTestWebhook(organisation: TestOrganisation, url: string, description = ''): Promise<string> {
  const eventCount = await organisation.call('POST', '/api/webhooks', {
    name: 'hook',
    description,
    url,
    triggers: ['TEST'],
  });
  return eventCount.body.uuid;
}

async function testDelivery(organisation: TestOrganisation, webhook: string): Promise<string> {
  await organisation.call('POST', `/api/webhooks/${webhook}/test`);
  return eventually('it is delivered', async () => {
    const [found] = (await organisation.call('GET', `/api/webhooks/${webhook}/deliveries`)).body.result;
    return found?.state === 'delivered' && found.id;
  });
}

async function createOperatedOrganisation(service: TestService, url: string): Promise<FuzzFixture['operated']> {
  const operated = await service.organisation();
  const path = `/admin/organisations/${operated.id}`;
  const { body: key } = await service.operator('POST', `${path}/api-keys`, { name: 'second' });
  const webhook = await createTestWebhook(operated, url);
  return {
    ...operated,
    apiKey: key.id,
    webhook,
    delivery: await testDelivery(operated, webhook),
  };
}

/** A failed delivery does not count: its retry never becomes due, because the clock stands still. */
async function waitForIdleDatabase(database: Database): Promise<void> {
  await eventually('the service is idle', async () => {
    const [row] = await database.query<{ idle: boolean }>(
      `select not exists (select from service.jobs where status = 'PENDING')
         and not exists (select from service.supplier_submissions where state = 'UNPROCESSED')
         and not exists (select from service.deliveries d join service.webhooks w on w.id = d.webhook_id
                         where w.is_active and (d.state = 'sending' or (d.state = 'pending' and d.due <= $1)))
         as idle`,
      [new Date(nowMs).toISOString()],
    );
    return row?.idle;
  });
}

/** A refused call stands in the audit log, and `/readyz` writes to see that the database takes it. */
const notDigested = ['actions', 'counted_requests', 'processes'];

async function takeSnapshot(database: Database): Promise<Pick<FuzzFixture, 'digest' | 'restore'>> {
  const tables = (
    await database.query<{ name: string }>(
      `select relname as name from pg_class
       where relnamespace = 'service'::regnamespace and relkind = 'r' and relname <> all($1) order by relname`,
      [notDigested],
    )
  ).map(({ name }) => name);
  // A written row gets a newer xmin: while the count and the sum of xmin stay the same, the table has not changed.
  const states = tables.map(
    (name) => `select '${name}' as name, count(*) || ' ' || coalesce(sum(xmin::text::bigint), 0) as state
               from service.${name}`,
  );
  const digestOf = (name: string) =>
    `select '${name}' as name, md5(coalesce(string_agg(md5(t::text), '' order by t::text), '')) as digest
     from service.${name} t ${name === 'files' ? "where state = 'file'" : ''}`;
  const known = new Map<string, { state: string; digest: string }>();
  const digest = async () => {
    const now = await database.query<{ name: string; state: string }>(states.join(' union all '));
    const touched = new Map(
      now.filter(({ name, state }) => known.get(name)?.state !== state).map((row) => [row.name, row.state]),
    );
    if (touched.size > 0) {
      const rows = await database.query<{ name: string; digest: string }>(
        [...touched.keys()].map(digestOf).join(' union all '),
      );
      for (const row of rows) known.set(row.name, { state: touched.get(row.name) ?? '', digest: row.digest });
    }
    return Object.fromEntries([...known].map(([name, { digest: of }]) => [name, of]));
  };
  await database.query('create schema kept');
  for (const name of tables) await database.query(`create table kept.${name} as table service.${name}`);
  const kept = await digest();
  return {
    digest,
    restore: async () => {
      const now = await digest();
      const changed = tables.filter((name) => now[name] !== kept[name]);
      await database.transaction(async (tx) => {
        // Foreign keys are not checked meanwhile: rows are deleted and inserted in any order, and are consistent at the
        // end.
        await tx.query('set local session_replication_role = replica');
        for (const name of changed) {
          // The database computes generated columns anew, and takes no values for them.
          const [columns] = await tx.query<{ names: string }>(
            `select string_agg(quote_ident(attname), ', ') as names from pg_attribute
             where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
            [`service.${name}`],
          );
          await tx.query(
            `delete from service.${name} t where not exists (select from kept.${name} k where k::text = t::text);
             insert into service.${name} (${columns?.names}) overriding system value
               select ${columns?.names} from kept.${name} k
               where not exists (select from service.${name} t where t::text = k::text)`,
          );
        }
      });
    },
  };
}
