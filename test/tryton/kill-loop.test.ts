/**
 * The whole way round, with a real Tryton: a requester raises requisitions, the bridge makes events of them, a buyer has
 * suppliers bid and awards each lot in two shares, and the bridge makes purchases of the awards. Meanwhile the processes
 * of the bridge, the service and Tryton are killed with `kill -9`: while events are made, while purchases are written,
 * while Tryton is told, and at seeded random moments. At the end each requisition has exactly one event, Tryton shows it
 * as bought by purchases that name it, and nothing was bought twice. One in five is withdrawn, as Tryton does it: without
 * a trace. It runs where FAULTS sets the number of kills; FAULT_SEED draws the random moments.
 */
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { SourceClient } from '#client/source-client.ts';
import { feedPage } from '#contract/feed.ts';
import { systemClock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { createSimulatorStage } from '#service/simulator/stage.ts';
import { readRows, readUnfinished } from '../faults/awards-in-sql.ts';
import { openClient } from '../faults/players.ts';
import { createInstallation, until, useEmbedded } from '../faults/program-process.ts';
import { seededRandom } from '../faults/seeded-random.ts';
import { type SupervisedProgram, superviseProgram } from '../faults/supervised-program.ts';
import { freePort } from '../harness/free-port.ts';
import { createOrganisation } from '../harness/test-organisation.ts';
import {
  type Fault,
  injectFaults,
  programKillers,
  type Random,
  repeatWhileAway,
  startEditing,
  trytonKiller,
} from './fault-run.ts';
import { type IncidentProxy, startIncidentProxy } from './incident-proxy.ts';
import { describeTryton, startTestTryton } from './tryton-in-tests.ts';
import { date, type TrytonClient, TrytonError } from './tryton-rpc.ts';
import { type TrytonServer, trytonUsers } from './tryton-server.ts';

const kills = Number(process.env['FAULTS'] ?? 0);
const seed = Number(process.env['FAULT_SEED'] ?? 20);
/** Upper bounds for a very busy machine: each wait ends as soon as its condition holds. */
const faultWaitMs = 180_000;
const idleWaitMs = 300_000;
const again = repeatWhileAway(faultWaitMs);
const raisedAtLeast = 6;
/** So many may be on their way at once: a story that runs ahead would make the end long. */
const onTheirWayMost = 4;
const suppliers = ['V-1001', 'V-1002'];
const shares = ['0.4', '0.6'];

describeTryton('requisitions of Tryton that become events and purchases', () => {
  test.runIf(process.env['FAULTS'])(
    `after ${kills} kills each has one event, and is bought once`,
    {
      timeout: 180_000 + kills * faultWaitMs + idleWaitMs,
    },
    async () => {
      const tryton = await startTestTryton();
      const database = await tryton.newDatabase();
      const erpProxy = await startIncidentProxy(tryton.url);
      const port = await freePort();
      const baseUrl = `http://127.0.0.1:${port}`;
      const serviceProxy = await startIncidentProxy(baseUrl);
      const installation = await createInstallation({ configuration: { sweep_seconds: 1 } });
      const { dataDir } = installation;
      const service = superviseProgram('service', () => installation.start(['service', '--port', String(port)]));
      await service.ready();
      const operator = (await readFile(`${dataDir}/admin-token`, 'utf8')).trim();
      const { key } = await createOrganisation(baseUrl, operator);
      const client = await openClient(baseUrl, key);
      const bridgeInstallation = await createInstallation({
        dataDir,
        configuration: configurationOf(
          { url: serviceProxy.url, apiKey: key },
          { url: erpProxy.url, name: database.name },
        ),
      });
      const bridges = ['intake', 'pull', 'push'].map((role) =>
        superviseProgram(`the bridge (${role})`, () => bridgeInstallation.start(['bridge', '--role', role])),
      );
      for (const bridge of bridges) await bridge.ready();

      await useEmbedded(dataDir, async (url) => {
        // Nothing is open yet, so there is nothing to agree to.
        const begun = 'select from bridge.intakes where begun is not null';
        await until('the intake has begun', async () => (await readRows(url, begun)).length > 0);
        const admin = await database.logIn('admin');
        const requester = createRequester(await database.logIn('requester'), admin, seededRandom(seed + 1));
        const buyer = createBuyer(client, url, requester);
        await buyer.prepare();
        const users = startEditing([() => requester.edit(), () => buyer.work()], seededRandom(seed + 2));
        const failure = () => service.failure ?? bridges.find((bridge) => bridge.failure)?.failure ?? users.failure;
        const random = seededRandom(seed);
        const faults = faultsBetween({ bridges, service, tryton, erpProxy, serviceProxy, random });
        const injected = await injectFaults(faults, {
          kills,
          waitMs: faultWaitMs,
          failure,
          report: async () => [
            `${requester.raised.size} raised, ${buyer.awarded.size} awarded`,
            JSON.stringify(await readRows(url, openJobs)),
            JSON.stringify(await readRows(url, deadLetters)),
            ...bridges.map(({ program }) => program.report()),
          ],
        });
        await until('some were raised', () => requester.raised.size >= raisedAtLeast, failure);
        requester.raiseNoMore();
        const giveUpMs = performance.now() + idleWaitMs;
        const isThrough = () => requester.isThrough() && buyer.awarded.size === requester.wanted().length;
        while (!isThrough() && failure() === undefined && performance.now() < giveUpMs) await sleep(50);
        await users.finish();

        const now = async () => ({
          differences: await differencesOf(requester, { client, admin, url }),
          jobs: await readRows(url, openJobs),
          undelivered: await readUnfinished(url),
        });
        await expect
          .poll(now, { timeout: idleWaitMs, interval: 500, message: `killed: ${injected.join(', ')}` })
          .toEqual({ differences: [], jobs: [], undelivered: [] });
        // Of one that was withdrawn in time, a person was told; of no other anything.
        const withdrawn = requester.all().filter((each) => each.isDoomed);
        for (const { erp_key: number, error_type: type } of await readRows<{ erp_key: string; error_type: string }>(
          url,
          deadLetters,
        ))
          expect([withdrawn.some((each) => each.number === number), type]).toEqual([true, 'withdrawn']);
        // oxlint-disable-next-line no-console -- a developer who runs hundreds of kills wants to see them
        console.log(
          `Seed ${seed}: ${requester.raised.size} requisitions, ${withdrawn.length} withdrawn, ${buyer.awarded.size} awarded ` +
            `in two shares; killed: ${injected.join(', ')}`,
        );
      });
      for (const bridge of bridges) await bridge.end();
      await service.end();
    },
  );
});

const openJobs = `select id::text, kind, state, last_error from bridge.intake_submissions
  where state in ('intent', 'sent', 'uncertain')`;
const deadLetters = 'select erp_key, error_type, last_error from bridge.intake_records where dead_since is not null';

function configurationOf(service: { url: string; apiKey: string }, erp: { url: string; name: string }): object {
  const { login, password } = trytonUsers.connector;
  const settings = {
    url: erp.url,
    database: erp.name,
    user: login,
    password,
    product: 'STEEL',
    purchase_state: 'confirmed',
    // Each kill costs both times.
    timeout_seconds: 5,
    settle_seconds: 2,
  };
  return {
    sweep_seconds: 1,
    bridge: {
      console_port: 0,
      sources: [
        {
          name: 'main',
          base_url: service.url,
          api_key: service.apiKey,
          feeds: ['sourcing-events', 'awards'],
          poll_seconds: 1,
          quotas: { enabled: false },
          // The outcome of a POST that was cut off is searched only after its time.
          timeout_seconds: 2,
        },
      ],
      intakes: [
        {
          name: 'requisitions',
          source: 'main',
          connector: 'tryton',
          stream: 'requisition',
          make: 'event',
          poll_seconds: 1,
          archive: { most: 1_000_000 },
          settings,
        },
      ],
      flows: [
        {
          name: 'orders',
          source: 'main',
          connector: 'tryton',
          documents: ['award'],
          quantity_column: 'Quantity',
          unit_price_column: 'Price',
          // Each failure of this test ends soon.
          circuit: { seconds: 1 },
          settings,
        },
      ],
    },
  };
}

/** Each fault resolves when it is over. */
function faultsBetween(parts: {
  bridges: readonly SupervisedProgram[];
  service: SupervisedProgram;
  tryton: TrytonServer;
  erpProxy: IncidentProxy;
  serviceProxy: IncidentProxy;
  random: Random;
}): readonly Fault[] {
  const { bridges, service, tryton, erpProxy, serviceProxy, random } = parts;
  const creates = /^\/api\/jobs\/create-sourcing-events$/;
  const looks = /^\/api\/jobs\/[0-9a-f]{8}-[0-9a-f-]{27}$/;
  const searches = /^\/api\/jobs\/\?/;
  const updates = /^\/api\/jobs\/update-sourcing-event$/;
  const purchases = /\.purchase\.create$/;
  const requests = /\.purchase\.requisition\.line\.write$/;
  const confirms = /\.purchase\.(?:quote|confirm)$/;
  const notes = /\.ir\.note\.(?:create|write)$/;
  const reads = /\.purchase\.requisition\.search_read$/;
  const { killBridges, killOne, killService } = programKillers({ bridges, service }, random);
  const killTryton = trytonKiller(tryton, random);
  return [
    [
      'the bridge, before it has the id of its job',
      () => serviceProxy.next({ method: creates, answered: () => killBridges() }),
    ],
    ['Tryton, while purchases are made', () => erpProxy.next({ method: purchases, during: () => killTryton(60) })],
    ['the bridge, before it knows of its note', () => erpProxy.next({ method: notes, answered: () => killBridges() })],
    [
      'the service, whose answer to a job is lost',
      () => serviceProxy.next({ method: creates, answered: () => killService(), lost: true }),
    ],
    [
      'the bridge, before it knows of its purchase',
      () => erpProxy.next({ method: purchases, answered: () => killBridges() }),
    ],
    [
      'Tryton, while requests are cut and linked',
      () => erpProxy.next({ method: requests, during: () => killTryton(60) }),
    ],
    [
      'the bridge, before it sees what a job made',
      () => serviceProxy.next({ method: looks, answered: () => killBridges() }),
    ],
    ['the answer to a confirmation is lost', () => erpProxy.next({ method: confirms, lost: true })],
    ['the service, while it takes a job', () => serviceProxy.next({ method: creates, during: () => killService(30) })],
    [
      'the bridge, while requests are cut and linked',
      () => erpProxy.next({ method: requests, during: () => killBridges(60) }),
    ],
    ['Tryton, while it is read', () => erpProxy.next({ method: reads, during: () => killTryton(30) })],
    [
      'Tryton, whose answer to a note is lost',
      () => erpProxy.next({ method: notes, answered: () => killTryton(), lost: true }),
    ],
    [
      'the bridge, while it searches for a job',
      async () => {
        await serviceProxy.next({ method: creates, lost: true });
        await serviceProxy.next({ method: searches, during: () => killBridges(30) });
      },
    ],
    [
      'Tryton, whose answer to a purchase is lost',
      () => erpProxy.next({ method: purchases, answered: () => killTryton(), lost: true }),
    ],
    [
      'the bridge, while purchases are confirmed',
      () => erpProxy.next({ method: confirms, during: () => killBridges(60) }),
    ],
    ['the answer to an update is lost', () => serviceProxy.next({ method: updates, lost: true })],
    ['one process of the bridge, at any moment', () => killOne(2_000)],
    ['the service, at any moment', () => killService(2_000)],
  ];
}

interface Raised {
  readonly number: string;
  /** The ids of its lines, and how much of each is wanted. */
  readonly lines: ReadonlyMap<number, number>;
  /** It is withdrawn later, and the buyer leaves its event alone. */
  readonly isDoomed: boolean;
  isWithdrawn: boolean;
}

type Requester = ReturnType<typeof createRequester>;

/** Raises requisitions in Tryton, and withdraws some. A call that Tryton's end has cut off is looked at, and made again. */
function createRequester(requester: TrytonClient, admin: TrytonClient, random: Random) {
  const raised = new Map<string, Raised>();
  let mayRaise = true;
  let isRaising = false;

  async function approve(id: number): Promise<string> {
    const [{ state, number }] = await admin.search('purchase.requisition', [['id', '=', id]], ['state', 'number']);
    // A kill between the approval and the purchase requests leaves it approved: a user processes it then.
    const step = { draft: 'wait', waiting: 'approve', approved: 'process' }[state as string];
    if (step === undefined) return number;
    await requester.call('purchase.requisition', step, [[id]]);
    return approve(id);
  }

  async function raise(): Promise<void> {
    const [product] = await whileAway(() =>
      requester.search('product.product', [['code', '=', 'STEEL']], ['default_uom']),
    );
    const [employee] = await whileAway(() => requester.search('company.employee', [], ['id']));
    const quantities = Array.from(
      { length: 1 + Math.floor(random.upTo(2)) },
      () => 5 * (1 + Math.floor(random.upTo(9))),
    );
    const lines = quantities.map((quantity) => ({ product: product.id, unit: product.default_uom, quantity }));
    const values = { employee: employee.id, supply_date: date('2030-03-31'), lines: [['create', lines]] };
    // One whose answer was lost stays a draft, which nobody sources.
    const [id] = await whileAway(() => requester.create('purchase.requisition', [values]));
    const number = await whileAway(() => approve(id as number));
    const domain = [['requisition', '=', id]];
    const made = await whileAway(() => admin.search('purchase.requisition.line', domain, ['quantity']));
    const isDoomed = raised.size % 5 === 3;
    const amounts = new Map<number, number>(made.map((line) => [line.id, line.quantity]));
    raised.set(number, { number, lines: amounts, isDoomed, isWithdrawn: false });
  }

  /** As users of Tryton withdraw an approved requisition: by deleting its purchase requests. */
  async function withdraw(each: Raised): Promise<void> {
    const origins = [...each.lines.keys()].map((line) => `purchase.requisition.line,${line}`);
    await whileAway(async () => {
      const found = await admin.search('purchase.request', [['origin', 'in', origins]], ['state']);
      if (found.length > 0) await admin.call('purchase.request', 'delete', [found.map(({ id }) => id)]);
    });
    each.isWithdrawn = true;
  }

  const all = () => [...raised.values()];

  /** Those that Tryton does not show as bought yet. */
  async function countOnTheirWay(): Promise<number> {
    const numbers = all().flatMap(({ number, isDoomed }) => (isDoomed ? [] : [number]));
    const domain = [
      ['number', 'in', numbers],
      ['state', '!=', 'done'],
    ];
    return (await whileAway(() => admin.search('purchase.requisition', domain, ['number']))).length;
  }

  return {
    raised,
    all,
    wanted: () => all().filter(({ isDoomed }) => !isDoomed),
    raiseNoMore: () => {
      mayRaise = false;
    },
    /** No other is raised, and those that are to be withdrawn are. */
    isThrough: () => !mayRaise && !isRaising && all().every(({ isDoomed, isWithdrawn }) => !isDoomed || isWithdrawn),
    edit: async () => {
      const [doomed] = all().filter(({ isDoomed, isWithdrawn }) => isDoomed && !isWithdrawn);
      if (doomed && (!mayRaise || random.upTo(1) < 0.05)) return withdraw(doomed);
      isRaising = mayRaise;
      if (isRaising && (await countOnTheirWay()) < onTheirWayMost) await raise();
      else await sleep(100);
      isRaising = false;
    },
  };
}

/** Repeats a call while Tryton is away. A refusal of its own would be a fault of this test. */
async function whileAway<T>(call: () => Promise<T>): Promise<T> {
  const giveUpMs = performance.now() + faultWaitMs;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (error instanceof TrytonError && !error.kind.startsWith('HTTP 5')) throw error;
      if (performance.now() > giveUpMs) throw error;
      await sleep(200);
    }
  }
}

/** Has suppliers bid for the events that the bridge has made, and awards each lot in two shares. */
function createBuyer(client: SourceClient, url: string, requester: Requester) {
  const awarded = new Set<string>();
  const stage = createSimulatorStage({ client, clock: systemClock, pauseMs: 0 });

  /** A command that is refused as it was carried out before, its answer lost, is done. */
  async function command(event: string, method: 'POST' | 'PUT', path: string, body: object = {}): Promise<void> {
    await again(async () => {
      try {
        await stage.desk(event, method, path, body);
      } catch (error) {
        if (!(error instanceof AppError && error.code === 'conflict')) throw error;
      }
    });
  }

  async function award(event: string): Promise<void> {
    const rows = await readRows<{ name: string }>(url, `select name from service.lots where event_id = '${event}'`);
    const lots = rows.map(({ name }) => name);
    await command(event, 'POST', '/invitations', { suppliers });
    await command(event, 'POST', '/publish');
    for (const [index, supplier] of suppliers.entries()) {
      const bids = lots.map((lot) => ({ lot, values: { Price: String(index + 2) } }));
      await command(event, 'POST', '/bids', { supplier, lots: bids });
    }
    const awards = lots.flatMap((lot) =>
      suppliers.map((supplier, index) => ({ lot, supplier, share_awarded: shares[index] })),
    );
    await command(event, 'PUT', '/scenarios/best', { awards });
    await command(event, 'POST', '/award', { scenario: 'best' });
    await command(event, 'POST', '/close');
  }

  return {
    awarded,
    prepare: () => again(() => stage.changeSuppliers(suppliers.map((id) => ({ external_id: id, name: id })))),
    work: async () => {
      const wanted = new Set(requester.wanted().map(({ number }) => number));
      for (const { id, reference } of await again(() => readEvents(client))) {
        if (!wanted.has(reference) || awarded.has(reference)) continue;
        await award(id);
        awarded.add(reference);
      }
    },
  };
}

/** The service's events that are not deleted. */
async function readEvents(client: SourceClient): Promise<{ id: string; reference: string }[]> {
  const path = '/api/feeds/sourcing-events?page_size=1000';
  const { data } = await client.call({ method: 'GET', path }, feedPage);
  return data
    .filter((event) => event['status'] !== 'DELETED')
    .map((event) => ({ id: String(event['id']), reference: String(event['reference_id']) }));
}

/** What is otherwise than it has to be at the end, in words. */
async function differencesOf(
  requester: Requester,
  { client, admin, url }: { client: SourceClient; admin: TrytonClient; url: string },
): Promise<string[]> {
  const found: string[] = [];
  const events = await readEvents(client);
  const purchases = await admin.search('purchase.purchase', [], ['state', 'party.code', 'lines.quantity']);
  for (const each of requester.all()) {
    const { number, lines, isDoomed } = each;
    const own = events.filter(({ reference }) => reference === number);
    const domain = [['origin', 'in', [...lines.keys()].map((line) => `purchase.requisition.line,${line}`)]];
    const fields = ['state', 'quantity', 'origin', 'purchase_line.purchase'];
    const requests = await admin.search('purchase.request', domain, fields);
    if (isDoomed) {
      const lots = `select l.name from service.lots l join service.sourcing_events e on e.id = l.event_id
        where e.reference_id = '${number}'`;
      if (own.length > 1) found.push(`${number} was withdrawn, and has ${own.length} events`);
      if (requests.length > 0) found.push(`${number} was withdrawn, and has ${requests.length} purchase requests`);
      if ((await readRows(url, lots)).length > 0) found.push(`${number} was withdrawn, and has lots`);
      continue;
    }
    if (own.length !== 1) found.push(`${number} has ${own.length} events`);
    const [{ state }] = await admin.search('purchase.requisition', [['number', '=', number]], ['state']);
    if (state !== 'done') found.push(`${number} is ${state} in Tryton`);
    for (const [line, wanted] of lines) {
      const ofLine = requests.filter(({ origin }) => origin === `purchase.requisition.line,${line}`);
      const bought = ofLine.filter((request) => request.state === 'purchased');
      const sum = bought.reduce((total, { quantity }) => total + quantity, 0);
      if (sum !== wanted || bought.length !== ofLine.length || bought.length !== suppliers.length)
        found.push(
          `${number}, line ${line}: ${sum} of ${wanted} bought by ${bought.length} of ${ofLine.length} requests`,
        );
    }
    const orders = new Set(requests.map((request) => request['purchase_line.']?.purchase));
    const codes = purchases.filter(({ id }) => orders.has(id)).map((purchase) => String(purchase['party.'].code));
    if (codes.length !== suppliers.length || suppliers.some((code) => !codes.includes(code)))
      found.push(`${number} is bought of ${codes.join(', ')}`);
    const named = [['resource.number', '=', number, 'purchase.requisition']];
    const notes = await admin.search('ir.note', named, ['message']);
    if (notes.length !== 1 || !String(notes[0]?.message).includes('is awarded'))
      found.push(`${number} shows ${notes.map(({ message }) => message).join(' | ') || 'no note'}`);
  }
  const live = purchases.filter((purchase) => purchase.state !== 'cancelled');
  const wantedOrders = requester.wanted().length * suppliers.length;
  if (live.length !== wantedOrders || purchases.length !== wantedOrders)
    found.push(`${live.length} purchases and ${purchases.length - live.length} cancelled ones, not ${wantedOrders}`);
  const references = new Set(requester.all().map(({ number }) => number));
  for (const { id, reference } of events)
    if (!references.has(reference)) found.push(`the event ${id} (${reference}) is of no requisition`);
  return found;
}
