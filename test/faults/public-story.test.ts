/**
 * Service with `--profile public` and bridge with `dialect: public` as processes, between an ERP in PostgreSQL and the
 * buyers and suppliers of buying-story.ts; changes are announced by a webhook alone. The same story once in peace and once
 * with `kill -9` at seeded instants: of the bridge, and each fifth time of the service. FAULTS sets the number of kills,
 * FAULT_SEED the instants.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { freePort } from '../harness/free-port.ts';
import { request } from '../harness/request.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { createOrganisation } from '../harness/test-organisation.ts';
import { buyingReads, startBuyingErp } from './buying-erp.ts';
import {
  beginErp,
  callService,
  crowdOrders,
  crowdSize,
  expectedCalls,
  files,
  readEvent,
  readSuppliers,
  renamedVendor,
  type Stage,
  steps,
  template,
  templateColumns,
  templateQuestion,
  titles,
  vendors,
} from './buying-story.ts';
import { createInstallation, type Installation, outcomeOf, type Program, until } from './program-process.ts';
import { seededRandom } from './seeded-random.ts';
import { type SupervisedProgram, superviseProgram } from './supervised-program.ts';

const kills = Number(process.env['FAULTS'] ?? 5);
const seed = Number(process.env['FAULT_SEED'] ?? 3);
/** Each fifth kill is of the service. */
const serviceEvery = 5;
const killWithinMs = 1_500;

test('the public service: each requisition becomes one event, and each award one order with exact prices', {
  timeout: 240_000,
}, async () => {
  const parts = await setUp();
  for (const step of steps) await step.play(parts.stage);
  await expectEnd(parts);
});

test(`the same with ${kills} kills of bridge and service`, { timeout: 240_000 + kills * 30_000 }, async () => {
  const parts = await setUp();
  const random = seededRandom(seed);
  const plan = Array.from({ length: kills }, (_, number) => ({
    step: Math.floor(random.upTo(steps.length)),
    afterMs: random.upTo(killWithinMs),
    victim: number % serviceEvery === 2 ? parts.service : parts.bridge,
  }));
  for (const [index, step] of steps.entries()) {
    const ofStep = plan.filter((each) => each.step === index);
    // Both end before one of them fails the test.
    const ended = await Promise.allSettled([step.play(parts.stage), killEach(ofStep)]);
    const failures = ended.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []));
    if (failures.length > 0) throw new AggregateError(failures, `${step.name}: ${failures.map(String).join('; ')}`);
  }
  await expectEnd(parts);
});

async function killEach(planned: readonly { afterMs: number; victim: SupervisedProgram }[]): Promise<void> {
  for (const { afterMs, victim } of planned) {
    await sleep(afterMs);
    await victim.kill();
  }
}

interface Parts {
  readonly stage: Stage;
  readonly service: SupervisedProgram;
  readonly bridge: SupervisedProgram;
  readonly bridgeInstallation: Installation;
}

/** Starts everything; the buyer's template is there, and the service announces changes to the bridge. */
async function setUp(): Promise<Parts> {
  const [erp, { url: databaseUrl, database }] = [await startBuyingErp(), await createTestDatabase()];
  await beginErp(erp);
  const [servicePort, port] = [await freePort(), await freePort()];
  const serviceInstallation = await createInstallation({ databaseUrl });
  const { dataDir } = serviceInstallation;
  const service = superviseProgram('service', () =>
    serviceInstallation.start(['service', '--profile', 'public', '--port', String(servicePort)]),
  );
  await service.ready();
  const baseUrl = `http://127.0.0.1:${servicePort}`;
  const operator = (await readFile(join(dataDir, 'admin-token'), 'utf8')).trim();
  const organisation = await createOrganisation(baseUrl, operator);
  // The limits of the public pages.
  const admin = `${baseUrl}/admin/organisations/${organisation.id}`;
  await request('PUT', `${admin}/limits`, { key: operator, body: {} });
  const scopes = ['manage', 'jobs', 'feeds', 'webhooks'];
  const bridgeKey = await request('POST', `${admin}/api-keys`, { key: operator, body: { name: 'bridge', scopes } });

  const failure = () => service.failure ?? bridge.failure;
  const { id } = (await organisation.call('POST', '/api/jobs/create-sourcing-events', template)).body;
  const made = await until('the template is made', async () => {
    const { body } = await organisation.call('GET', `/api/jobs/${id}`);
    return body.status !== 'PENDING' && body;
  });
  const configuration = configurationOf({
    baseUrl,
    port,
    apiKey: bridgeKey.body.key,
    template: made.created_entity,
    erpUrl: erp.url,
  });
  const bridgeInstallation = await createInstallation({ dataDir, databaseUrl, configuration });
  const bridge = superviseProgram('bridge', () => bridgeInstallation.start(['bridge']));
  await bridge.ready();
  await succeed(bridgeInstallation, 'bridge', 'webhooks', 'register', '--source', 'main');
  const stage: Stage = {
    erp,
    organisation,
    failure,
    agreeToFirstRun: async () => {
      const paused = `select from bridge.intakes where name = 'requisitions' and paused_kind = 'first-run'`;
      await until('the intake asks', async () => (await database.query(paused)).length > 0, failure);
      await succeed(bridgeInstallation, 'bridge', 'resume', 'requisitions');
    },
  };
  return { stage, service, bridge, bridgeInstallation };
}

function configurationOf(of: { baseUrl: string; port: number; apiKey: string; template: string; erpUrl: string }) {
  const reads = buyingReads(of.erpUrl);
  const intake = { connector: 'postgres', source: 'main', poll_seconds: 1 };
  const flow = {
    connector: 'postgres',
    source: 'main',
    quantity_column: 'Quantity',
    unit_price_column: 'Unit Price',
  };
  return {
    sweep_seconds: 1,
    bridge: {
      port: of.port,
      console_port: 0,
      sources: [
        {
          name: 'main',
          base_url: of.baseUrl,
          api_key: of.apiKey,
          dialect: 'public',
          user_email: 'buyer@example.com',
          // Longer than the test: a notification must wake the bridge.
          poll_seconds: 3_600,
          // So long the end of the test waits, and a job whose answer was lost.
          lateness_seconds: 2,
          timeout_seconds: 5,
        },
      ],
      intakes: [
        { name: 'vendors', ...intake, mapping: { supplier: { fields: {} } }, settings: reads.suppliers },
        {
          name: 'requisitions',
          ...intake,
          stream: 'requisition',
          make: 'event-from-template',
          template: of.template,
          mapping: { lots: { columns: { Quantity: 'line.quantity', Unit: 'line.unit' } } },
          settings: reads.requisitions,
        },
      ],
      flows: [
        {
          ...flow,
          name: 'warehouse',
          documents: ['quotation', 'award', 'rfi-answers'],
          settings: { url: of.erpUrl, schema: 'sourcing', history: true },
        },
        {
          ...flow,
          name: 'orders',
          documents: ['award'],
          settings: { url: of.erpUrl, schema: 'bridge_orders', mode: 'function', function: 'erp.take_order' },
        },
      ],
    },
  };
}

/** Runs a command to its end; fails unless its exit code is 0. */
async function succeed(installation: Installation, ...args: readonly string[]): Promise<Program> {
  const program = installation.start(args);
  await program.end;
  expect(outcomeOf(program)).toBe('exit code 0');
  return program;
}

async function expectEnd(parts: Parts): Promise<void> {
  const { stage, service, bridge, bridgeInstallation } = parts;
  await Promise.all([service.ready(), bridge.ready()]);
  await expectService(stage);
  await expectErp(stage);
  await expect
    .poll(() => notInStep(bridgeInstallation), { timeout: 90_000, interval: 500, message: 'all is in step' })
    .toEqual([]);
  await succeed(bridgeInstallation, 'bridge', 'status');
  await succeed(bridgeInstallation, 'bridge', 'check');
  expect([service.failure, bridge.failure]).toEqual([undefined, undefined]);
  await bridge.end();
  await service.end();
}

/** What `bridge status` shows of feeds, flows and intakes that are not in step, and of dead letters. */
async function notInStep(installation: Installation): Promise<string[]> {
  const program = installation.start(['bridge', 'status', '--json']);
  await program.end;
  const status = JSON.parse(program.lines.join('\n'));
  type Shown = { feed?: string; flow?: string; intake?: string; lag: { inStep: boolean; why: string } };
  const all: Shown[] = [...status.feeds, ...status.flows, ...status.intakes];
  expect(all).toHaveLength(4 + 2 + 2);
  return [
    ...all.filter(({ lag }) => !lag.inStep).map((each) => `${each.feed ?? each.flow ?? each.intake}: ${each.lag.why}`),
    ...status.deadLetters.map(({ key, lastError }: { key: string; lastError: string }) => `${key}: ${lastError}`),
  ];
}

/** Each supplier, event, question and file is at the service once. */
async function expectService(stage: Stage): Promise<void> {
  const names = new Map<string, string>([...vendors, renamedVendor].map(({ number, name }) => [number, name]));
  const suppliers = await readSuppliers(stage);
  expect(
    suppliers.map(({ external_id: id, name, archived, contacts }) => [id, name, archived, contacts[0]?.email]).sort(),
  ).toEqual([...names].map(([number, name]) => [number, name, false, `sales@${number.toLowerCase()}.example`]));

  const events = await readFeed(stage, 'sourcing-events', 10);
  const shown = events.map(({ name, reference_id, status, lot_count, columns }) => [
    reference_id ?? name,
    status,
    lot_count,
    (columns as { name: string }[]).map((column) => column.name),
  ]);
  expect(shown.sort()).toEqual([
    [template.name, 'DRAFT', 1, templateColumns],
    ['PR-1', 'CLOSED', 3, templateColumns],
    ['PR-2', 'CLOSED', 2, templateColumns],
    ['PR-3', 'CLOSED', crowdSize, templateColumns],
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
  expect(awards).toHaveLength(3 + 2 + crowdSize + 1);

  const { result } = await callService(stage, 'GET', '/api/jobs/?page_size=200');
  const jobs = (result as { type: string; status: string }[]).map(({ type, status }) => `${type} ${status}`).sort();
  // An update whose answer was lost is sent again.
  expect(jobs.filter((job) => !/^(UPDATE|GENERATE)_\w+ COMPLETED$/.test(job))).toEqual([
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
async function expectErp({ erp }: Stage): Promise<void> {
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

  const rows = <Row>(sql: string) => erp.database.query<Row & object>(sql);
  // Numbers lose digits on their way; texts do not.
  const held = await rows<{ order: string; version: number; versions: number }>(
    `select event_reference_id || '/' || supplier_external_id as order, state, total_cost::text as total, version::int,
       (select count(*)::int from sourcing.document_history h where h.kind = 'award' and h.key = award.key) as versions,
       array(select lot || ' ' || share || ' ' || quantity || ' ' || unit_price || ' ' || cost
             from sourcing.award_line l where l.key = award.key order by line) as lines
     from sourcing.award order by 1`,
  );
  const lasts = [...Object.values(expectedCalls).map((made) => made.at(-1)), ...crowdOrders].filter((each) => !!each);
  expect(held).toMatchObject(
    lasts
      .map(({ order, total, lines }) => {
        const shown = lines.map((line) => line.slice(0, line.indexOf(' of ')));
        // A withdrawn award keeps its head.
        return { order, lines: shown, ...(lines.length === 0 ? { state: 'withdrawn' } : { state: 'current', total }) };
      })
      .toSorted((a, b) => (a.order < b.order ? -1 : 1)),
  );
  const versions = held.filter(({ order }) => order in expectedCalls).map(({ order, version }) => [order, version]);
  expect(Object.fromEntries(versions)).toEqual(
    Object.fromEntries(Object.entries(expectedCalls).map(([order, made]) => [order, made.length])),
  );
  expect(held.filter(({ version, versions: kept }) => version !== kept)).toEqual([]);
  expect(
    await rows(
      `select event_reference_id as number, supplier_external_id as supplier, count(*)::int as lines
       from sourcing.quotation join sourcing.quotation_line using (key) where state = 'current' group by 1, 2 order by 1, 2`,
    ),
  ).toEqual([
    { number: 'PR-1', supplier: 'V-1', lines: 3 },
    { number: 'PR-1', supplier: 'V-2', lines: 3 },
    { number: 'PR-2', supplier: 'V-3', lines: 2 },
    { number: 'PR-2', supplier: 'V-4', lines: 2 },
    { number: 'PR-3', supplier: 'V-1', lines: crowdSize / 3 },
    { number: 'PR-3', supplier: 'V-2', lines: crowdSize / 3 },
    { number: 'PR-3', supplier: 'V-4', lines: crowdSize / 3 },
    { number: 'PR-4', supplier: 'V-5', lines: 1 },
  ]);
  expect(await rows(`select question_identifier, value from sourcing.rfi_answer`)).toEqual([
    { question_identifier: '1', value: 'DAP Rotterdam' },
  ]);
  await expect
    .poll(() => rows(`select requisition from bridge_news.requisition_news where status = 'awarded' order by 1`), {
      timeout: 60_000,
      message: 'what became of each requisition',
    })
    .toEqual(expect.arrayContaining(['PR-1', 'PR-3', 'PR-4'].map((requisition) => ({ requisition }))));
}
