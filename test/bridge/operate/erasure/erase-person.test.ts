/**
 * After an erasure a dump of all tables of the bridge does not hold the address. A source that goes on to show a record
 * unchanged does not bring it back; one that shows another version with it does, until it is erased there.
 */
import * as fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { storeResources } from '#bridge/mirror/store-resources.ts';
import { erasePersonFromBridge } from '#bridge/operate/erasure/erase-person.ts';
import { storeNotifications } from '#bridge/receive/store-notifications.ts';
import { documentKinds } from '#connector/documents.ts';
import { readActions, recordAction } from '#platform/audit-log.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { errorText } from '#platform/errors.ts';
import { createPerson } from '#platform/person-data/person.ts';
import { findTextTables } from '#platform/person-data/stored-text.ts';
import { allText } from '../../../harness/all-text.ts';
import { killedAfter } from '../../../harness/killed-after.ts';
import { eventRecord, idOf, type TestRecord } from '../../parts.ts';
import { createFakeErp, type FakeErp } from '../../push/fake-erp.ts';
import { createPusher, event, type Pusher, supplier } from '../../push/pusher.ts';

const mark = '00112233aabb';
const placeholder = `erased-${mark}@erased.invalid`;
const bob = { name: 'Bob', email: 'bob.ann.ash@example.com' };

interface World extends Pusher {
  readonly erp: FakeErp;
  push(): Promise<void>;
  /** A record as its source shows it, stored as the puller does. */
  show(record: TestRecord): Promise<void>;
  /** The supplier list: one supplier with these contacts, or as many as given. */
  showSupplier(contacts: readonly object[], suppliers?: readonly string[]): Promise<void>;
  erase(address: string, database?: Database): ReturnType<typeof erasePersonFromBridge>;
  namedBy(address: string): Promise<string[]>;
}

async function createWorld(): Promise<World> {
  const pusher = await createPusher(1, { documents: [...documentKinds], test_events: true });
  const { database } = pusher.db;
  const erp = createFakeErp({ kinds: [...documentKinds] });
  const { push } = await pusher.worker(erp);
  const show: World['show'] = (record) => pusher.store('sourcing-events', record);
  return {
    ...pusher,
    erp,
    push,
    show,
    showSupplier: async (contacts, suppliers = ['V-1']) => {
      await database.transaction((tx) =>
        storeResources(tx, {
          source: 'main',
          kind: 'supplier-master',
          objects: suppliers.map((id) => ({ external_id: id, name: 'Acme', fields: {}, contacts })),
          observed: timestampNow(pusher.clock),
          now: timestampNow(pusher.clock),
        }),
      );
    },
    erase: (address, as = database) => erasePersonFromBridge(as, createPerson(address, mark)),
    namedBy: async (address) => {
      const person = createPerson(address, mark);
      return (await allText(database, 'bridge')).filter((line) => person.isIn(line));
    },
  };
}

/** An event whose record has the address everywhere. */
function eventOf(address: string, text: string, more: Record<string, unknown> = {}): TestRecord {
  return eventRecord(event, [], {
    name: `Chairs for ${text}`,
    description: text,
    event_contact: { name: 'Ann Ash', email: address },
    created_by: { id: idOf(9), name: 'Ann Ash', email: address },
    tags: [{ name: 'Owner', value: text }],
    suppliers: [
      { id: supplier(0), name: 'Acme', external_id: 'V-1', contacts: [{ name: 'Ann Ash', email: address }, bob] },
    ],
    ...more,
  });
}

const address = 'Ann.Ash@example.com';

/** Everything that there was of the person, in every way in which rows come to be. */
async function fill(world: World): Promise<TestRecord> {
  const { database } = world.db;
  await world.showSupplier([{ name: 'Ann Ash', email: address }, bob]);
  await world.show(eventOf(address, 'an older text'));
  const shown = eventOf(address, `mail ${address.toUpperCase()}`);
  await world.show(shown);
  await world.award([0, '5']);
  world.erp.onWrite = async (operations, apply) =>
    operations.map((operation) =>
      operation.document.kind === 'award'
        ? { status: 'retry', error: { type: 'transient', message: `no user ${address}` } }
        : apply(operation),
    );
  await world.push();
  world.erp.onWrite = async (operations, apply) => operations.map(apply);
  await storeNotifications(database, [
    { source: 'main', trigger: 'T', feed: undefined, body: Buffer.from(`{"of":"${address}"}`), receivedMs: 0 },
  ]);
  const now = timestampNow(world.clock);
  await database.query(
    `insert into bridge.console_users (name, role, password_hash, created, changed) values ($3, 'viewer', 'h', $1, $1);
     insert into bridge.console_tokens (token_hash, kind, account, account_version, name, role, method, created, last_used, ends)
       values ('\\x01', 'session', $3, 1, $3, 'viewer', 'password', $1, $1, $1);
     insert into bridge.alerts (channel, kind, subject, id, since, summary, action)
       values ('email', 'dead-letters', 'flow erp', '${idOf(1)}', $1, $3, 'act');
     insert into bridge.intakes (name, source, stream, connector, next_read) values ('in', 'main', 'supplier', 'c', $1);
     insert into bridge.intake_records (intake, erp_key, source, key, content_hash, body, first_seen, seen, compared_hash)
       select 'in', 'E1', 'main', 'V-1', sha256(convert_to($2, 'UTF8')), $2, $1, $1, content_hash from bridge.resources
       where kind = 'supplier-master';
     insert into bridge.intake_records (intake, erp_key, source, content_hash, body, first_seen, seen)
       values ('in', $3, 'main', '\\x00', '{}', $1, $1)`
      .replaceAll('$1', `'${now}'`)
      .replaceAll('$2', `'{"contacts":[{"email":"${address}","name":"Ann"}],"id":"E1"}'`)
      .replaceAll('$3', `'${address.toLowerCase()}'`),
  );
  await recordAction(database, 'bridge', {
    who: { kind: 'user', name: address },
    what: 'flow.pause',
    object: 'flow erp',
    from: null,
    details: { said: address },
    when: now,
    outcome: 'allowed',
  });
  return shown;
}

/** What the ERP holds, and how often it was called. */
const held = ({ erp }: World) => [
  erp.living().map(({ reference, contentHash }) => [reference, contentHash]),
  erp.calls,
];

describe('an erasure', () => {
  test('leaves the address in no table, and lists what the ERP was sent', async () => {
    const world = await createWorld();
    await fill(world);
    expect((await world.namedBy(address)).length).toBeGreaterThan(15);

    const { removed, deliveries } = await world.erase(address);

    expect(await world.namedBy(address)).toEqual([]);
    const texts = (await allText(world.db.database, 'bridge')).join('\n');
    expect(texts).not.toContain('Ann Ash');
    expect(texts).toContain(bob.email);
    expect(removed).toMatchObject({
      'bridge.mirror': 1,
      'bridge.mirror_history': 1,
      'bridge.resources': 1,
      'bridge.inbox': 1,
      'bridge.console_users': 1,
      'bridge.actions': 1,
      'bridge.alerts': 1,
      'bridge.intake_records': 2,
    });
    expect(deliveries.map(({ kind, key, reference }) => [kind, key, reference])).toEqual([
      ['award', expect.any(String), null],
      ['sourcing-event', event, expect.stringMatching(/^PO-/)],
      ['supplier', 'V-1', expect.stringMatching(/^PO-/)],
    ]);
  });

  test('is not undone by a source that goes on to show what it showed, nor does the ERP get a call', async () => {
    const world = await createWorld();
    const shown = await fill(world);
    const before = structuredClone(held(world));
    await world.erase(address);
    await world.show(shown);
    await world.showSupplier([{ name: 'Ann Ash', email: address }, bob]);
    await world.push();
    expect(await world.namedBy(address)).toEqual([]);
    expect(held(world)).toEqual(before);
  });

  test('is undone by a source that shows the person in another version; once erased there, it stays', async () => {
    const world = await createWorld();
    await world.show(eventOf(address, 'one'));
    await world.push();
    await world.erase(address);
    await world.show(eventOf(address, 'two'));
    expect((await world.namedBy(address)).length).toBeGreaterThan(0);
    await world.show(eventOf('nobody@example.com', 'three', { event_contact: null, created_by: null, suppliers: [] }));
    await world.push();
    await world.erase(address);
    expect(await world.namedBy(address)).toEqual([]);
    await world.push();
    expect(JSON.stringify(world.erp.operations.at(-1))).not.toContain('Ann Ash');
  });

  test('does not hide a real change: what differed from the ERP before is sent afterwards, without the person', async () => {
    const world = await createWorld();
    await world.show(eventOf(address, 'one'));
    await world.push();
    await world.show(eventOf(address, 'two', { status: 'OPEN' }));
    const before = world.erp.operations.length;
    await world.erase(address);
    await world.push();
    const sent = world.erp.operations.slice(before);
    expect(sent.map(({ document }) => document)).toContainEqual(
      expect.objectContaining({ kind: 'sourcing-event', status: 'OPEN' }),
    );
    expect(JSON.stringify(sent)).not.toContain('Ann Ash');
  });

  test('that was killed lists all that the ERP was sent when it is run again, and a third one changes nothing', async () => {
    const world = await createWorld();
    await fill(world);
    const killed = await world.erase(address, killedAfter(world.db.database, 25)).catch(errorText);
    expect(killed).toContain('killed');
    expect((await world.erase(address)).deliveries).toHaveLength(3);
    expect(await world.erase(address)).toEqual({ removed: {}, deliveries: [] });
  });

  test('keeps the audit log, which takes no other change', async () => {
    const world = await createWorld();
    await fill(world);
    await world.erase(address);
    const [entry] = await readActions(world.db.database, 'bridge', { what: 'flow', limit: 10 });
    expect(entry).toMatchObject({ who: { name: placeholder }, details: { said: placeholder } });
    await expect(world.db.database.query("update bridge.actions set name = 'x'")).rejects.toThrow(/only appended to/);
  });
});

const forms: ((text: string) => string)[] = [
  (text) => text,
  (text) => text.toUpperCase(),
  (text) => encodeURIComponent(text),
  (text) => JSON.stringify({ text }),
  (text) => text.replace('@', '\\u0040'),
  (text) => `Dear <${text}>, please\nreply.`,
];

test('in any letters, encodings and texts, killed at any statement and with pulls and pushes in between, it ends the same', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.stringMatching(/^[a-z0-9][a-z0-9.+'&_-]{0,8}[a-z0-9]$/),
      fc.constantFrom(...forms),
      fc.constantFrom(...forms),
      fc.array(fc.integer({ min: 1, max: 120 }), { maxLength: 3 }),
      fc.boolean(),
      async (local, inText, inContact, kills, pullsBetween) => {
        const own = `${local}@example.com`;
        const world = await createWorld();
        const shown = eventOf(inContact(own), inText(own));
        await world.showSupplier([{ name: 'Ann Ash', email: own }, bob]);
        await world.show(eventOf(own, `before ${inText(own)}`));
        await world.show(shown);
        await world.push();
        const before = structuredClone(held(world));
        for (const kill of kills) {
          const outcome = await world.erase(own, killedAfter(world.db.database, kill)).catch(errorText);
          expect(['killed', 'done']).toContain(typeof outcome === 'string' ? outcome : 'done');
          if (pullsBetween) await world.show(shown);
          await world.push();
          expect(held(world)).toEqual(before);
        }
        await world.erase(own);
        expect(await world.namedBy(own)).toEqual([]);
        await world.show(shown);
        await world.push();
        expect(await world.namedBy(own)).toEqual([]);
        expect(held(world)).toEqual(before);
        await world.db.drop();
      },
    ),
    { numRuns: 4 },
  );
}, 120_000);

test('every column with text is searched, and none of another kind could hold an address', async () => {
  const { db } = await createPusher(0);
  onTestFinished(() => db.drop());
  const tables = await findTextTables(db.database, 'bridge');
  const searched = new Set(tables.flatMap(({ table, columns }) => columns.map(({ name }) => `${table}.${name}`)));
  const columns = await db.database.query<{ name: string; type: string }>(
    `select n.nspname || '.' || c.relname || '.' || a.attname as name, format_type(a.atttypid, null) as type
     from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
     where n.nspname = 'bridge' and c.relkind = 'r' and c.relname <> 'migrations' and a.attnum > 0 and not a.attisdropped`,
  );
  const others = columns.filter(({ name }) => !searched.has(name)).map(({ type }) => type);
  expect([...new Set(others)].sort()).toEqual([
    'bigint',
    'boolean',
    'bytea',
    'integer',
    'timestamp with time zone',
    'uuid',
  ]);
});
