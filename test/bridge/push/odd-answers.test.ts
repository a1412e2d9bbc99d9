/** Wrong and unusual answers of a connector, and what must not happen after them. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createSecretRedactor } from '#bridge/connectors/secret-redactor.ts';
import { planFlow } from '#bridge/operate/plan/plan-flow.ts';
import type { Found, Outcome } from '#connector/connector.ts';
import { createLogger } from '#platform/log.ts';
import { createFakeErp, type FakeErp } from './fake-erp.ts';
import { createPusher, keyOf, type Pusher, testProcess } from './pusher.ts';

let pusher: Pusher;
let erp: FakeErp;
beforeEach(async () => {
  pusher = await createPusher();
  erp = createFakeErp();
});
afterEach(() => erp.throwFaults());

const push = async () => (await pusher.worker(erp)).push();
const take: FakeErp['onWrite'] = async (operations, apply) => operations.map(apply);

/**
 * Interrupted calls: the ERP has taken the documents, their outcomes are unknown, and the next push may look them up.
 */
async function interrupted(...numbers: number[]): Promise<void> {
  await pusher.award(...numbers.map((n): [number, string] => [n, '10']));
  erp.onWrite = async (operations, apply) => {
    operations.map(apply);
    throw new Error('connection lost');
  };
  await push();
  erp.onWrite = take;
  pusher.clock.advance(60_000);
}
const changed = (find: () => Found[], n: number, change: object) =>
  find().map((object) => (object.key === keyOf(n) ? { ...object, ...change } : object));

describe('a lookup', () => {
  test.each([
    ['is not a text', 4711],
    ['cannot be stored', 'PO\0-1'],
    ['is too long to be stored', 'P'.repeat(2_001)],
  ])('in which the reference of one object %s keeps only that document waiting', async (_what, reference) => {
    await interrupted(1, 2);
    erp.onLookup = async (_documents, find) => changed(find, 1, { reference, contentHash: undefined });
    await push();
    expect(await pusher.row(2)).toMatchObject({ due: null, intent_id: null });
    expect(await pusher.row(1)).toMatchObject({ last_error: expect.stringContaining('reference'), dead_since: null });
    expect((await pusher.row(1))?.intent_id).not.toBeNull();
    expect(erp.calls).toEqual(['write create create', 'lookup 2']);
  });

  test('that cannot tell what the ERP holds of one document keeps only that document waiting', async () => {
    await interrupted(1, 2);
    erp.onLookup = async (_documents, find) => [
      ...find().filter(({ key }) => key !== keyOf(1)),
      { key: keyOf(1), unclear: 'the ERP answered 500' },
    ];
    await push();
    expect(await pusher.row(2)).toMatchObject({ due: null, intent_id: null });
    expect((await pusher.row(1))?.last_error).toContain('lookup failed: the ERP answered 500');
    expect(erp.calls).toEqual(['write create create', 'lookup 2']);
    erp.onLookup = async (_documents, find) => find();
    pusher.clock.advance(60_000);
    await push();
    expect(await pusher.row(1)).toMatchObject({ due: null, intent_id: null });
    expect(erp.living(keyOf(1))).toHaveLength(1);
  });

  test('that finds two objects for a document leads to no write, and the error names both objects', async () => {
    await interrupted(1, 2);
    const reference = erp.living(keyOf(1))[0]?.reference ?? '';
    erp.onLookup = async (_documents, find) => [
      ...find(),
      { key: keyOf(1), reference: 'PO-77', contentHash: undefined },
    ];
    await pusher.award([1, '11'], [2, '10']);
    await push();
    expect((await pusher.row(1))?.last_error).toContain(`two objects for it: ${reference} and PO-77`);
    expect(await pusher.row(2)).toMatchObject({ due: null });
    expect(erp.calls).toEqual(['write create create', 'lookup 2']);
    // An operator has removed the second object.
    erp.onLookup = async (_documents, find) => find();
    pusher.clock.advance(60_000);
    await push();
    expect(erp.living(keyOf(1))).toMatchObject([{ reference, total: '11' }]);
  });

  test('that returns one object twice, or objects that were not asked for, counts as found', async () => {
    await interrupted(1);
    erp.onLookup = async (_documents, find) => [...find(), ...find(), { ...(find()[0] as Found), key: keyOf(3) }];
    await push();
    expect(await pusher.row(1)).toMatchObject({ due: null, reference: 'PO-1' });
    expect(erp.calls).toEqual(['write create', 'lookup 1']);
  });

  test.each([
    ['a number', 5],
    ['a text that is no hash', 'a\0b'],
    ['null', null],
  ])('that returns %s as the content hash leads to an amendment', async (_what, contentHash) => {
    await interrupted(1);
    erp.onLookup = async (_documents, find) => changed(find, 1, { contentHash });
    await push();
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'write amend']);
    expect(await pusher.row(1)).toMatchObject({ due: null });
  });

  test.each([
    ['an object instead of a list', () => ({}) as never],
    ['an entry without a key', () => [{ reference: 'PO-1' }] as never],
  ])('that returns %s has failed: nothing is written', async (_what, answer) => {
    await interrupted(1);
    erp.onLookup = async () => answer();
    await push();
    expect(erp.calls).toEqual(['write create', 'lookup 1']);
    expect(await pusher.row(1)).toMatchObject({ last_error: expect.stringContaining('lookup failed') });
  });

  test('that does not end is followed by no other call, although earlier lookups have answered', async () => {
    erp = createFakeErp({ batchMax: 1, concurrency: 3, timeoutMs: 30 });
    await pusher.award([0, '1'], [1, '1'], [2, '1']);
    erp.onWrite = async () => {
      throw new Error('connection lost');
    };
    await push();
    erp.onWrite = take;
    erp.calls.length = 0;
    let asked = 0;
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    erp.onLookup = async (_documents, find) => {
      asked += 1;
      if (asked === 2) await ended;
      return find();
    };
    pusher.clock.advance(60_000);
    const worker = await pusher.worker(erp);
    await worker.push();
    await worker.push();
    expect(erp.calls).toEqual(['lookup 1', 'lookup 1']);
    end();
    pusher.clock.advance(60_000);
    await expect
      .poll(async () => {
        await worker.push();
        return erp.living();
      })
      .toHaveLength(3);
  });
});

describe('a write', () => {
  test.each<[string, unknown]>([
    ['an object without any text', Object.create(null)],
    ['an error whose message is an object', Object.assign(new Error('x'), { message: { Fault: 'down' } })],
    ['undefined', undefined],
  ])(
    'that throws %s has an unknown outcome, and the document waits as after any other failure',
    async (_what, thrown) => {
      await pusher.award([1, '10']);
      erp.onWrite = async (operations, apply) => {
        operations.map(apply);
        throw thrown;
      };
      await push();
      await push();
      expect(await pusher.row(1)).toMatchObject({ attempts: 1, error_type: 'unknown' });
      pusher.clock.advance(60_000);
      await push();
      expect(erp.calls).toEqual(['write create', 'lookup 1']);
    },
  );

  test('whose reference could not be stored unchanged has an unknown outcome', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async (operations, apply) =>
      operations.map(apply).map(() => ({ status: 'created', reference: 'P'.repeat(2_001) }));
    await push();
    expect(await pusher.row(1)).toMatchObject({ reference: null, last_error: expect.stringContaining('reference') });
    pusher.clock.advance(60_000);
    await push();
    expect(erp.calls).toEqual(['write create', 'lookup 1']);
    expect(await pusher.row(1)).toMatchObject({ due: null, reference: 'PO-1' });
  });

  test('that answers a very long message has it shortened in the database and in the log', async () => {
    await pusher.award([1, '10'], [2, '20']);
    const message = 'no '.repeat(1_000_000);
    const lines: string[] = [];
    const log = createLogger({ name: 'test', level: 'trace', destination: { write: (line) => lines.push(line) } });
    erp.onWrite = async () => [
      { status: 'rejected', error: { type: 'auth', message } },
      { status: 'unknown', message },
    ];
    await (await pusher.worker(erp, { log })).push();
    expect((await pusher.row(1))?.last_error).toHaveLength(2_000);
    expect((await pusher.row(2))?.last_error).toHaveLength(2_000);
    expect((await pusher.flowRow())?.paused_reason).toHaveLength(2_000);
    expect(lines.join('')).toContain('flow paused');
    expect(lines.join('').length).toBeLessThan(20_000);
  });

  test('whose signal is read long after the call has ended does not make the document uncertain', async () => {
    erp = createFakeErp({ timeoutMs: 100 });
    await pusher.award([1, '10']);
    let kept: AbortSignal | undefined;
    erp.onWrite = async (operations, apply, signal) => {
      kept = signal;
      return operations.map(apply);
    };
    const worker = await pusher.worker(erp);
    await worker.push();
    await expect.poll(() => kept?.aborted).toBe(true);
    // Longer than a connector may take to stop.
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(await pusher.row(1)).toMatchObject({ due: null });
    expect(erp.calls).toEqual(['write create']);
  });

  test('of a document that a lookup found to be absent has no reference', async () => {
    await interrupted(1);
    for (const object of erp.objects) object.cancelled = true;
    await pusher.award();
    await push();
    await pusher.award([1, '12']);
    await push();
    expect(erp.operations.at(-1)).toMatchObject({ action: 'create', reference: undefined });
  });
});

describe('a secret of the settings', () => {
  const settings = {
    url: 'https://erp.example.com/?sap-client=100',
    proxy: 'http://proxy-user:Pr%2Fxy-pass@proxy.example.com',
    auth: { type: 'basic', user: 'PRINTS', db_password: 'hunter/2"two' },
    api_keys: { apiKey: 'AKIA-0123' },
    SigningSecret: ['older-one', 'newer-one'],
  };
  const texts = [
    'hunter/2"two',
    'hunter%2F2%22two',
    'hunter/2\\"two',
    'AKIA-0123',
    'older-one',
    'newer-one',
    'Pr/xy-pass',
    'Pr%2Fxy-pass',
  ];
  const message = `basic PRINTS at ${settings.url}: ${texts.join(', ')}`;

  test('is removed from everything of the connector that is stored, logged or shown', async () => {
    pusher = await createPusher(6, { settings });
    const lines: string[] = [];
    const log = createLogger({ name: 'test', level: 'trace', destination: { write: (line) => lines.push(line) } });
    const said: Outcome[] = [
      { status: 'rejected', error: { type: 'data', message } },
      { status: 'retry', error: { type: 'transient', message } },
      { status: 'unknown', message },
      { status: 'retry', error: { type: 'auth', message } },
    ];
    await pusher.award([0, '1'], [1, '1'], [2, '1'], [3, '1']);
    erp.onWrite = async () => said;
    await (await pusher.worker(erp, { log })).push();
    const kept = async () =>
      (
        await pusher.db.database.query<{ text: string }>(
          'select d::text as text from bridge.flow_documents d union all select f::text from bridge.flows f',
        )
      )
        .map(({ text }) => text)
        .join('\n');
    expect((await pusher.row(0))?.last_error).toContain('basic PRINTS at https://erp.example.com/?sap-client=100: ');
    expect(lines.join('')).toContain('PRINTS');
    const all = [await kept(), ...lines].join('\n');
    expect(texts.filter((text) => all.includes(text))).toEqual([]);
  });

  test('is removed from errors that the connector throws, and from its plans', async () => {
    pusher = await createPusher(4, { settings });
    await pusher.award([0, '1']);
    erp.onWrite = async () => {
      throw new Error(message);
    };
    erp.onLookup = async () => {
      throw new Error(message);
    };
    await push();
    const first = (await pusher.row(0))?.last_error;
    pusher.clock.advance(60_000);
    await push();
    const second = (await pusher.row(0))?.last_error;
    expect(second).toContain('lookup failed');
    await pusher.award([0, '1'], [1, '1']);
    const plans = [
      async () => {
        throw new Error(message);
      },
      async () => [{ key: keyOf(1), action: 'create' as const, steps: [message] }],
    ];
    const planned = await Promise.all(
      plans.map((plan) =>
        planFlow(
          {
            database: pusher.db.database,
            openFlow: {
              flow: pusher.flow,
              connector: erp.connector,
              session: { ...erp.session, plan },
              secrets: createSecretRedactor(pusher.flow.settings),
            },
            clock: pusher.clock,
            processIdentity: testProcess,
          },
          { limit: 10, signal: new AbortController().signal },
        ),
      ),
    );
    const shown = JSON.stringify([first, second, planned]);
    expect(shown.split('PRINTS').length).toBeGreaterThan(4);
    expect(texts.filter((text) => shown.includes(text))).toEqual([]);
  });
});
