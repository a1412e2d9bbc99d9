/**
 * Service, two processes of the bridge with the role `intake`, and a real Tryton. Users of Tryton and of the service edit
 * the same suppliers while the bridge, the service and Tryton are killed with `kill -9`: while suppliers are submitted,
 * while they are read, and at seeded random moments. At the end the service holds what Tryton says, nothing that it does
 * not, and what its own users have added. FAULTS sets the number of kills, FAULT_SEED the random moments.
 */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { SourceClient } from '#client/source-client.ts';
import type { SupplierChange } from '#contract/supplier.ts';
import { readRows } from '../faults/awards-in-sql.ts';
import { openClient } from '../faults/players.ts';
import { createInstallation, type Installation, until, useEmbedded } from '../faults/program-process.ts';
import { seededRandom } from '../faults/seeded-random.ts';
import { type SupervisedProgram, superviseProgram } from '../faults/supervised-program.ts';
import { freePort } from '../harness/free-port.ts';
import { request } from '../harness/request.ts';
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
import { type TrytonClient, TrytonError } from './tryton-rpc.ts';
import { type TrytonServer, trytonUsers } from './tryton-server.ts';

const kills = Number(process.env['FAULTS'] ?? 3);
const seed = Number(process.env['FAULT_SEED'] ?? 19);
/** Upper bounds for a very busy machine: each wait ends as soon as its condition holds. */
const faultWaitMs = 120_000;
const idleWaitMs = 240_000;
const again = repeatWhileAway(faultWaitMs);
/** So few that both sides often edit the same. */
const parties = 12;
/** Of each side. */
const editsAtLeast = 30;

describeTryton('an intake of suppliers from Tryton', () => {
  // By `npm run test:kills`: the story beside it, and test/faults/public-story.test.ts, are the sample of every run.
  test.runIf(process.env['FAULTS'])(
    `after ${kills} kills of the bridge, the service and Tryton both sides are equal`,
    {
      timeout: 120_000 + kills * faultWaitMs + idleWaitMs,
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
      const { apiKey, userKey } = await createService(dataDir, baseUrl);
      const client = await openClient(baseUrl, userKey);
      const desk = createDesk(client, seededRandom(seed + 1));
      // The service has suppliers already: a person has to agree to the first run.
      await desk.makeOwn();
      const bridgeInstallation = await createInstallation({
        dataDir,
        configuration: configurationOf({ url: serviceProxy.url, apiKey }, { url: erpProxy.url, name: database.name }),
      });
      const bridges = ['first', 'second'].map((which) =>
        superviseProgram(`${which} bridge`, () => bridgeInstallation.start(['bridge', '--role', 'intake'])),
      );
      for (const bridge of bridges) await bridge.ready();

      const erp = await database.logIn('admin');
      const users = createErpUsers(erp, seededRandom(seed + 2));
      await users.edit();
      await agreeToFirstRun(bridgeInstallation);
      const editors = startEditing([() => users.edit(), () => desk.edit()], seededRandom(seed + 3));
      const failure = () => service.failure ?? bridges.find((bridge) => bridge.failure)?.failure ?? editors.failure;

      const random = seededRandom(seed);
      const faults = faultsBetween({ bridges, service, tryton, erpProxy, serviceProxy, random });
      const injected = await injectFaults(faults, {
        kills,
        waitMs: faultWaitMs,
        failure,
        report: () => bridges.map(({ program }) => program.report()),
      });
      await until('both sides were edited', () => Math.min(users.edits, desk.edits) >= editsAtLeast, failure);
      await editors.finish();

      await useEmbedded(dataDir, async (url) => {
        const now = async () => ({
          differences: differencesOf(await readErp(erp), await readService(client), desk),
          open: await readRows(url, openSubmissions),
        });
        await expect
          .poll(now, { timeout: idleWaitMs, interval: 250, message: `killed: ${injected.join(', ')}` })
          .toEqual({ differences: [], open: [] });
        // A submission that was made twice would be at the service, and unknown to the bridge.
        const known = await readRows<{ uuid: string }>(
          url,
          'select uuid from bridge.intake_submissions where uuid is not null',
        );
        const made = await readRows<{ id: string }>(url, submissionsOfBridge);
        const unknown = made.filter(({ id }) => !known.some(({ uuid }) => uuid === id));
        // But for those whose answer was lost again and again: their suppliers were submitted anew, which changes nothing more.
        const without = await readRows<{ state: string; last_error: string | null }>(
          url,
          `select id, state, posts, last_error, created, ended from bridge.intake_submissions where uuid is null`,
        );
        const perhapsTaken = without.filter(({ state, last_error: why }) => state === 'released' && why !== null);
        // With all that have no id, so that a failure shows them.
        expect({ unknown: unknown.slice(perhapsTaken.length), without }).toEqual({ unknown: [], without });
        const others = made.filter((each) => !unknown.includes(each));
        expect(known.map(({ uuid }) => uuid).sort()).toEqual(others.map(({ id }) => id).sort());
        expect(await readRows(url, deadLetters)).toEqual([]);
        // oxlint-disable-next-line no-console -- a developer who runs hundreds of kills wants to see them
        console.log(
          `Seed ${seed}: ${users.edits} edits in Tryton, ${desk.edits} at the service, ${known.length} submissions; ` +
            `killed: ${injected.join(', ')}`,
        );
      });
      for (const bridge of bridges) await bridge.end();
      await service.end();
    },
  );
});

const openSubmissions = `select id::text, state, last_error from bridge.intake_submissions
  where state in ('intent', 'sent', 'uncertain')`;
/** Not by what users were answered: an answer to one of them may have been lost, too. */
const submissionsOfBridge = `select s.id::text as id, s.state, s.created, s.last_changed, s.change_summary, s.suppliers from service.supplier_submissions s
  join service.api_keys k on k.id = s.created_by where k.name <> 'user'`;
const deadLetters = 'select erp_key, error_type, last_error from bridge.intake_records where dead_since is not null';

/**
 * Creates an organisation with the attribute that the intake fills, a key for the bridge, and one for a user: by whose
 * key a submission was made, the bridge tells its own from others.
 */
async function createService(dataDir: string, baseUrl: string): Promise<{ apiKey: string; userKey: string }> {
  const operator = (await readFile(`${dataDir}/admin-token`, 'utf8')).trim();
  const { id, key } = await createOrganisation(baseUrl, operator);
  const organisation = `${baseUrl}/admin/organisations/${id}`;
  const attribute = { key: operator, body: { name: 'City' } };
  expect(await request('POST', `${organisation}/supplier-attributes`, attribute)).toMatchObject({ status: 201 });
  const user = { key: operator, body: { name: 'user', scopes: ['manage'] } };
  const { body } = await request('POST', `${organisation}/api-keys`, user);
  return { apiKey: key, userKey: body.key };
}

const prefix = 'T-';
const codes = 'K-';

function configurationOf(service: { url: string; apiKey: string }, erp: { url: string; name: string }): object {
  const { login, password } = trytonUsers.connector;
  return {
    sweep_seconds: 1,
    bridge: {
      console_port: 0,
      sources: [
        {
          name: 'main',
          base_url: service.url,
          api_key: service.apiKey,
          feeds: ['awards'],
          suppliers: true,
          suppliers_poll_seconds: 10,
          quotas: { enabled: false },
          // The outcome of a POST that was cut off is searched only after its time.
          timeout_seconds: 2,
        },
      ],
      intakes: [
        {
          name: 'vendors',
          source: 'main',
          connector: 'tryton',
          poll_seconds: 1,
          prefix,
          // Tryton has parties that are no suppliers.
          only: { external_id: [codes] },
          mapping: { supplier: { fields: { City: 'fields.city' } } },
          // The random edits block many at once.
          archive: { most: 1_000_000 },
          settings: { url: erp.url, database: erp.name, user: login, password, timeout_seconds: 5 },
        },
      ],
    },
  };
}

async function agreeToFirstRun(bridge: Installation): Promise<void> {
  await until('the first run waits for a person', async () => {
    const status = bridge.start(['bridge', 'status', '--json']);
    await status.end;
    return status.lines.join('').includes('"first-run"');
  });
  const resume = bridge.start(['bridge', 'resume', 'vendors']);
  expect(await resume.end).toMatchObject({ code: 0 });
}

/** Each fault resolves when it is over. The first three run in every test run. */
function faultsBetween(parts: {
  bridges: readonly SupervisedProgram[];
  service: SupervisedProgram;
  tryton: TrytonServer;
  erpProxy: IncidentProxy;
  serviceProxy: IncidentProxy;
  random: Random;
}): readonly Fault[] {
  const { bridges, service, tryton, erpProxy, serviceProxy, random } = parts;
  // The list of submissions has a query, and a look at one of them the id.
  const submits = /^\/api\/manage\/supplier_changes$/;
  const looks = /^\/api\/manage\/supplier_changes\/[0-9a-f-]{36}$/;
  const lists = /^\/api\/manage\/suppliers/;
  const reads = /^model\.party\.party\.search_read$/;
  const { killBridges, killOne, killService } = programKillers({ bridges, service }, random);
  const killTryton = trytonKiller(tryton, random);
  return [
    ['the bridge, before it gets the id', () => serviceProxy.next({ method: submits, answered: () => killBridges() })],
    ['Tryton, while it is read', () => erpProxy.next({ method: reads, during: () => killTryton(30) })],
    [
      'the service, whose answer to a submission is lost',
      () => serviceProxy.next({ method: submits, answered: () => killService(), lost: true }),
    ],
    ['the bridge, while it submits', () => serviceProxy.next({ method: submits, during: () => killBridges(30) })],
    [
      'the service, while it takes a submission',
      () => serviceProxy.next({ method: submits, during: () => killService(30) }),
    ],
    ['one of two bridges', () => killOne(1_000)],
    [
      'the bridge, before it knows the outcome',
      () => serviceProxy.next({ method: looks, answered: () => killBridges() }),
    ],
    ['the bridge, while it reads Tryton', () => erpProxy.next({ method: reads, during: () => killBridges(100) })],
    ['the answer to a submission is lost', () => serviceProxy.next({ method: submits, lost: true })],
    [
      'the bridge, while it sends a submission again',
      async () => {
        await serviceProxy.next({ method: submits, lost: true });
        await serviceProxy.next({ method: submits, during: () => killBridges(30) });
      },
    ],
    [
      'the bridge, while it reads the list of suppliers',
      () => serviceProxy.next({ method: lists, during: () => killBridges(50) }),
    ],
    ['the service, at any moment', () => killService(2_000)],
  ];
}

/** Users of Tryton. What an edit came to is read from Tryton at the end: one that was cut off may have been saved. */
function createErpUsers(erp: TrytonClient, random: Random) {
  let edits = 0;
  const everything = { active_test: false };

  async function editParty(code: string): Promise<void> {
    const [party] = await erp.search(
      'party.party',
      [['code', '=', code]],
      ['active', 'addresses', 'contact_mechanisms'],
      everything,
    );
    const text = `${code} v${edits}`;
    if (!party) {
      const contact = { type: 'email', value: `${code.toLowerCase()}@erp.example`, name: `Ann ${text}` };
      await erp.create('party.party', [
        {
          code,
          name: `Vendor ${text}`,
          addresses: [['create', [{ city: 'Rome' }]]],
          contact_mechanisms: [['create', [contact]]],
        },
      ]);
      return;
    }
    const write = (model: string, id: number, values: object) => erp.call(model, 'write', [[id], values], everything);
    const roll = random.upTo(1);
    if (roll < 0.45) await write('party.party', party.id, { name: `Vendor ${text}` });
    else if (roll < 0.65) await write('party.party', party.id, { active: !party.active });
    else if (roll < 0.8) await write('party.address', party.addresses[0], { city: `City ${edits % 7}` });
    else if (roll < 0.9) await write('party.contact_mechanism', party.contact_mechanisms[0], { name: `Ann ${text}` });
    else
      await erp.create('party.contact_mechanism', [
        { party: party.id, type: 'email', value: `more-${edits}@erp.example`, name: `Bob ${text}` },
      ]);
  }

  return {
    get edits() {
      return edits;
    },
    edit: async () => {
      edits += 1;
      try {
        await editParty(`${codes}${1 + Math.floor(random.upTo(parties))}`);
      } catch (error) {
        // Tryton was killed. A refusal of its own would be a fault of this test.
        if (error instanceof TrytonError && !error.kind.startsWith('HTTP 5')) throw error;
        await sleep(200);
      }
    },
  };
}

interface Held {
  readonly external_id: string;
  readonly name: string;
  readonly archived: boolean;
  readonly fields: Readonly<Record<string, string>>;
  readonly contacts: readonly { readonly name: string; readonly email: string }[];
}

async function readService(client: SourceClient): Promise<Held[]> {
  const { items } = await client.listSuppliers({ pageSize: 100 });
  return items as unknown as Held[];
}

/** Users of the service: they change what Tryton is master of, add contacts of their own, and make own suppliers. */
function createDesk(client: SourceClient, random: Random) {
  let edits = 0;
  /** What Tryton does not know: it must stay. */
  const own = new Map<string, string>();
  const contacts: { key: string; email: string }[] = [];

  async function submit(change: SupplierChange): Promise<void> {
    const key = randomUUID();
    const { uuid } = await again(() => client.submitSupplierChange([change], key));
    await until('the service has processed the submission of its user', async () => {
      const { current_state: state } = await again(() => client.readSupplierChange(uuid));
      return state === 'PROCESSED';
    });
  }

  async function makeOwn(): Promise<void> {
    edits += 1;
    const name = `Only at the service ${edits}`;
    own.set(`OWN-${edits}`, name);
    await submit({ external_id: `OWN-${edits}`, name });
  }

  return {
    own,
    contacts,
    get edits() {
      return edits;
    },
    makeOwn,
    edit: async () => {
      const suppliers = (await again(() => readService(client))).filter(({ external_id: id }) => id.startsWith(prefix));
      const supplier = suppliers[Math.floor(random.upTo(suppliers.length))];
      const roll = random.upTo(1);
      if (!supplier || (roll < 0.1 && own.size < 5)) return makeOwn();
      edits += 1;
      const { external_id: key } = supplier;
      if (roll < 0.4) return submit({ external_id: key, name: `Renamed by a user ${edits}` });
      if (roll < 0.6) return submit({ external_id: key, archived: !supplier.archived });
      if (roll < 0.75) return submit({ external_id: key, fields: { City: 'Changed by a user' } });
      const email = `user-${edits}@service.example`;
      await submit({ external_id: key, contacts: [{ name: 'A user', email }] });
      contacts.push({ key, email });
    },
  };
}

interface Party {
  readonly code: string;
  readonly name: string;
  readonly active: boolean;
  readonly city: string;
  readonly contacts: readonly { readonly name: string; readonly email: string }[];
}

async function readErp(erp: TrytonClient): Promise<Party[]> {
  const rows = await erp.search(
    'party.party',
    [['code', 'like', `${codes}%`]],
    ['code', 'name', 'active', 'addresses.city', 'contact_mechanisms.name', 'contact_mechanisms.value'],
    { active_test: false },
  );
  return rows.map((row): Party => {
    const mechanisms = row['contact_mechanisms.'] as { name: string; value: string }[];
    return {
      code: row.code,
      name: row.name,
      active: row.active,
      city: row['addresses.'][0].city,
      contacts: mechanisms.map(({ name, value }) => ({ name, email: value })),
    };
  });
}

/** What the service holds otherwise than Tryton and its own users say, in words. */
function differencesOf(
  wanted: readonly Party[],
  held: readonly Held[],
  { own, contacts }: Pick<ReturnType<typeof createDesk>, 'own' | 'contacts'>,
): string[] {
  const found: string[] = [];
  if (wanted.length < parties / 2) found.push(`only ${wanted.length} parties are in Tryton`);
  const byKey = new Map(held.map((supplier) => [supplier.external_id, supplier]));
  const expected = new Set([...own.keys(), ...wanted.map(({ code }) => prefix + code)]);
  for (const key of byKey.keys()) if (!expected.has(key)) found.push(`${key} is on neither side`);
  if (byKey.size !== held.length) found.push('a supplier stands twice in the list');
  const differs = (key: string, what: string, is: unknown, was: unknown) => {
    if (is !== was) found.push(`${key}: ${what} ${String(is)}, not ${String(was)}`);
  };
  for (const { code, name, active, city, contacts: wants } of wanted) {
    const key = prefix + code;
    const supplier = byKey.get(key);
    if (!supplier) {
      // One that was blocked before the bridge saw it.
      if (active) found.push(`${key} is missing`);
      continue;
    }
    differs(key, 'name', supplier.name, name);
    differs(key, 'archived', supplier.archived, !active);
    differs(key, 'City', supplier.fields['City'], city);
    for (const { email, name: person } of wants)
      differs(key, email, supplier.contacts.find((contact) => contact.email === email)?.name, person);
  }
  for (const { key, email } of contacts)
    if (!byKey.get(key)?.contacts.some((contact) => contact.email === email))
      found.push(`${key}: the contact ${email} of a user of the service is gone`);
  for (const [key, name] of own) {
    const supplier = byKey.get(key);
    if (supplier?.name !== name || supplier.archived) found.push(`${key} of the service was touched`);
  }
  return found;
}
