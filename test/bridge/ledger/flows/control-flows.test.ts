import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createSecretRedactor } from '#bridge/connectors/secret-redactor.ts';
import { pauseFlow, readDeadLetters, replayDocuments, resumeFlow } from '#bridge/ledger/flows/control-flows.ts';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { resumeOnSettingsChange } from '#bridge/ledger/flows/resume-on-settings-change.ts';
import { planFlow } from '#bridge/operate/plan/plan-flow.ts';
import type { Outcome, OutcomeError } from '#connector/connector.ts';
import { timestampNow } from '#platform/clock.ts';
import { createSecretBox, type SecretBox } from '#platform/secrets.ts';
import { startProcess } from '../../parts.ts';
import { createFakeErp, type FakeErp } from '../../push/fake-erp.ts';
import { createPusher, event, keyOf, type Pusher } from '../../push/pusher.ts';

let pusher: Pusher;
let erp: FakeErp;
beforeEach(async () => {
  pusher = await createPusher();
  erp = createFakeErp({ batchMax: 1 });
});
afterEach(() => erp.throwFaults());

const now = () => timestampNow(pusher.clock);
const push = async () => (await pusher.worker(erp)).push();
const refuse =
  (error: OutcomeError): FakeErp['onWrite'] =>
  async (operations) =>
    operations.map((): Outcome => ({ status: 'rejected', error }));
const take: FakeErp['onWrite'] = async (operations, apply) => operations.map(apply);

describe('a pause', () => {
  test('by an operator outlasts restarts and ends with resume', async () => {
    await pusher.award([1, '10']);
    await pauseFlow(pusher.db.database, 'erp', 'stocktaking', now());
    await registerFlows(pusher.db.database, [pusher.flow], now());
    await push();
    expect(erp.calls).toEqual([]);
    expect(await pusher.flowRow()).toMatchObject({ paused_kind: 'operator', paused_reason: 'stocktaking' });
    await resumeFlow(pusher.db.database, 'erp', { agreeToWithdrawals: false }, now());
    await push();
    expect(erp.calls).toEqual(['write create']);
  });

  test('that a new flow begins with writes nothing before resume, and does not come back with a later start', async () => {
    const cautious = { ...pusher.flow, name: 'cautious', begins_paused: true };
    const start = () => registerFlows(pusher.db.database, [cautious], now());
    await start();
    await pusher.award([1, '10']);
    const { push: pushCautious } = await pusher.worker(erp, { flow: cautious });
    await pushCautious();
    expect(erp.calls).toEqual([]);
    const openFlow = { flow: cautious, ...erp, secrets: createSecretRedactor({}) };
    const planned = await planFlow(
      { database: pusher.db.database, openFlow, clock: pusher.clock },
      { limit: 10, signal: new AbortController().signal },
    );
    expect(planned).toMatchObject([{ action: 'create', key: keyOf(1) }]);
    await resumeFlow(pusher.db.database, 'cautious', { agreeToWithdrawals: false }, now());
    await start();
    await pushCautious();
    expect(erp.calls).toEqual(['write create']);
  });

  test('takes effect before the next batch, and the call in flight is settled', async () => {
    await pusher.award([0, '1'], [1, '1'], [2, '1']);
    erp.onWrite = async (operations, apply) => {
      await pauseFlow(pusher.db.database, 'erp', 'stocktaking', now());
      return operations.map(apply);
    };
    await push();
    expect(erp.calls).toEqual(['write create']);
    expect(erp.living()).toHaveLength(1);
    expect(await pusher.db.database.query('select from bridge.flow_documents where intent_id is not null')).toEqual([]);
  });

  test('takes effect for claimed documents that are being looked up: they are not written', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async () => {
      throw new Error('connection lost');
    };
    await push();
    erp.onWrite = take;
    pusher.clock.advance(60_000);
    erp.onLookup = async (_documents, find) => {
      await pauseFlow(pusher.db.database, 'erp', 'stocktaking', now());
      return find();
    };
    await push();
    expect(erp.calls).toEqual(['write create', 'lookup 1']);
    erp.onLookup = async (_documents, find) => find();
    await resumeFlow(pusher.db.database, 'erp', { agreeToWithdrawals: false }, now());
    await push();
    expect(erp.living()).toHaveLength(1);
  });

  test('is in effect when the command returns: no intent is committed after it', async () => {
    await pusher.award([1, '10']);
    const process = await startProcess(pusher.db);
    const events: string[] = [];
    let pausing: Promise<unknown> | undefined;
    const worker = await pusher.worker(erp, {
      process,
      database: {
        ...process.database,
        transaction: async (work) => {
          let claims = false;
          const result = await process.database.transaction(async (tx) => {
            const done = await work(tx);
            const [own] = await tx.query('select from bridge.flow_documents where intent_id is not null');
            claims = own !== undefined && pausing === undefined;
            if (claims) {
              pausing = pauseFlow(pusher.db.database, 'erp', 'stocktaking', now()).then(() => events.push('paused'));
              await Promise.race([pausing, new Promise((resolve) => setTimeout(resolve, 300))]);
              events.push('commits');
            }
            return done;
          });
          return result;
        },
      },
    });
    await worker.push();
    await pausing;
    expect(events).toEqual(['commits', 'paused']);
  });

  test('by an operator is not replaced by a pause of the ERP', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async () => {
      await pauseFlow(pusher.db.database, 'erp', 'stocktaking', now());
      return [{ status: 'retry', error: { type: 'auth', message: 'no' } }];
    };
    await push();
    expect(await pusher.flowRow()).toMatchObject({ paused_kind: 'operator', paused_reason: 'stocktaking' });
  });

  test.each(['auth', 'config'] as const)(
    'because of %s ends when the settings of the connector change',
    async (type) => {
      const secrets = createSecretBox(Buffer.alloc(32, 7));
      const start = (settings: Record<string, unknown>) =>
        resumeOnSettingsChange(pusher.db.database, [{ ...pusher.flow, settings }], secrets, now());
      await start({ password: 'old secret' });
      await pusher.award([1, '10']);
      erp.onWrite = refuse({ type, message: 'wrong password' });
      await push();
      erp.onWrite = take;
      expect(await start({ password: 'old secret' }), 'another process starts with the same settings').toEqual([]);
      await push();
      expect(erp.calls).toHaveLength(1);
      expect(await start({ password: 'new secret' })).toEqual(['erp']);
      await push();
      expect(erp.living(), 'at once, not after the retry wait').toHaveLength(1);
      const [row] = await pusher.db.database.query<{ text: string }>('select f::text as text from bridge.flows f');
      expect(row?.text).not.toContain('secret');
    },
  );

  test('does not end because the master key was replaced: the settings are the same', async () => {
    const [old, now32] = [Buffer.alloc(32, 7), Buffer.alloc(32, 8)];
    const start = (secrets: SecretBox) => resumeOnSettingsChange(pusher.db.database, [pusher.flow], secrets, now());
    await start(createSecretBox(old));
    await pusher.db.database.query("update bridge.flows set paused_kind = 'auth', paused_reason = 'wrong password'");
    expect(await start(createSecretBox(now32, [old]))).toEqual([]);
    // From then on the settings are known by the new key alone.
    expect(await start(createSecretBox(now32))).toEqual([]);
    expect(await pusher.flowRow()).toMatchObject({ paused_reason: 'wrong password' });
  });

  test.each([
    ['by an operator', 'operator'],
    ['for withdrawals', 'withdrawals'],
  ])('%s does not end when the settings change', async (_what, kind) => {
    const secrets = createSecretBox(Buffer.alloc(32, 7));
    await resumeOnSettingsChange(pusher.db.database, [pusher.flow], secrets, now());
    await pauseFlow(pusher.db.database, 'erp', 'reason', now());
    await pusher.db.database.query('update bridge.flows set paused_kind = $1', [kind]);
    const changed = { ...pusher.flow, settings: { other: 1 } };
    expect(await resumeOnSettingsChange(pusher.db.database, [changed], secrets, now())).toEqual([]);
    expect(await pusher.flowRow()).toMatchObject({ paused_reason: 'reason' });
  });

  test('of an unknown flow is an error that says so', async () => {
    await expect(pauseFlow(pusher.db.database, 'erpp', 'x', now())).rejects.toThrow('No flow "erpp" is known');
    const agreed = { agreeToWithdrawals: false };
    await expect(resumeFlow(pusher.db.database, 'erpp', agreed, now())).rejects.toThrow('"erpp"');
    await expect(replayDocuments(pusher.db.database, { flow: 'erpp' }, now())).rejects.toThrow('"erpp"');
  });
});

describe('a process whose settings make other documents than the settings in force', () => {
  test('does not push: it would undo what the others deliver', async () => {
    await pusher.award([1, '10']);
    await registerFlows(pusher.db.database, [{ ...pusher.flow, quantity_column: 'Volume' }], now());
    await push();
    expect(erp.calls).toEqual([]);
    await registerFlows(pusher.db.database, [pusher.flow], now());
    await push();
    expect(erp.calls).toEqual(['write create']);
  });

  test('does not have documents of a kind wait that the flow does not take any more', async () => {
    await pusher.award([1, '10']);
    await registerFlows(pusher.db.database, [{ ...pusher.flow, documents: ['quotation'] }], now());
    expect(await pusher.row(1)).toMatchObject({ due: null, waiting_since: null });
  });
});

describe('a flow that gets another connector', () => {
  test('asks the new ERP what it holds of all delivered documents, and creates what is missing', async () => {
    await pusher.award([1, '10'], [2, '20']);
    await push();
    const old = erp;
    erp = createFakeErp();
    const flow = { ...pusher.flow, connector: 'another' };
    await registerFlows(pusher.db.database, [flow], now());
    await (await pusher.worker(old)).push();
    expect(old.calls, 'a process with the old connector does not push any more').toHaveLength(2);
    await (await pusher.worker(erp, { flow })).push();
    expect(erp.calls).toEqual(['lookup 2', 'write create create']);
    expect(erp.living().map(({ key, total }) => [key, total])).toEqual([
      [keyOf(1), '10'],
      [keyOf(2), '20'],
    ]);
    await registerFlows(pusher.db.database, [flow], now());
    await (await pusher.worker(erp, { flow })).push();
    expect(erp.calls, 'once').toHaveLength(2);
  });
});

describe('a replay', () => {
  test('of a document in step looks it up and writes it again, without a second object', async () => {
    await pusher.award([1, '10'], [2, '20']);
    await push();
    erp.calls.length = 0;
    expect(await replayDocuments(pusher.db.database, { flow: 'erp', keys: [keyOf(1)] }, now())).toBe(1);
    await push();
    expect(erp.calls).toEqual(['lookup 1', 'write amend']);
    expect(erp.operations.at(-1)).toMatchObject({ action: 'amend', reference: 'PO-1' });
    await push();
    expect(erp.calls, 'once').toHaveLength(2);
    expect(await pusher.row(1)).toMatchObject({ due: null, waiting_since: null });
  });

  test('of a withdrawn document that the ERP does not hold writes nothing', async () => {
    await pusher.award([1, '10']);
    await push();
    await pusher.award();
    await push();
    erp.calls.length = 0;
    await replayDocuments(pusher.db.database, { flow: 'erp' }, now());
    await push();
    expect(erp.calls).toEqual(['lookup 1']);
    expect(await pusher.row(1)).toMatchObject({ due: null, delivered_hash: null });
  });

  test('of a document that waits after failures ends the wait', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = refuse({ type: 'transient', message: 'down' });
    for (let count = 0; count < 5; count += 1) {
      await push();
      pusher.clock.advance(600_000);
    }
    await push();
    erp.onWrite = take;
    await push();
    expect(erp.living()).toEqual([]);
    await replayDocuments(pusher.db.database, { flow: 'erp', keys: [keyOf(1)] }, now());
    expect(await pusher.row(1)).toMatchObject({ attempts: 0 });
    await push();
    expect(erp.living()).toHaveLength(1);
  });

  test('can be restricted to dead letters, and tries them again', async () => {
    await pusher.award([1, '10'], [2, '20']);
    erp.onWrite = async (operations, apply) =>
      operations.map((operation) =>
        operation.document.key === keyOf(2)
          ? { status: 'rejected', error: { type: 'data', message: 'Vendor 2 is blocked' } }
          : apply(operation),
      );
    await push();
    erp.onWrite = take;
    erp.calls.length = 0;
    expect(await replayDocuments(pusher.db.database, { flow: 'erp', dead: true }, now())).toBe(1);
    await push();
    expect(erp.calls).toEqual(['write create']);
    expect(await readDeadLetters(pusher.db.database, { limit: 10 })).toEqual([]);
  });

  test('that is asked for while the document is written is done after that write', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async (operations, apply) => {
      if (erp.operations.length === 1) await replayDocuments(pusher.db.database, { flow: 'erp' }, now());
      return operations.map(apply);
    };
    await push();
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'write amend']);
    expect(await pusher.row(1)).toMatchObject({ due: null });
  });

  test('with several filters takes the documents that match all of them', async () => {
    await pusher.award([1, '10'], [2, '20']);
    await push();
    const { database } = pusher.db;
    const count = (filter: object) => replayDocuments(database, { flow: 'erp', ...filter }, now());
    expect(await count({ kinds: ['quotation'] })).toBe(0);
    expect(await count({ events: [keyOf(1)] })).toBe(0);
    expect(await count({ kinds: ['award'], events: [event], keys: [keyOf(2), 'other'] })).toBe(1);
    expect(await count({ events: [event] })).toBe(2);
    expect(await count({})).toBe(2);
    expect(await count({ dead: true })).toBe(0);
  });
});

describe('dead letters', () => {
  test('are listed with the error text of the ERP, the newest first, page by page', async () => {
    await pusher.award([0, '1'], [1, '1'], [2, '1']);
    erp.onWrite = async (operations) => {
      pusher.clock.advance(1_000);
      return operations.map(
        ({ document }): Outcome => ({
          status: 'rejected',
          error:
            document.key === keyOf(1)
              ? { type: 'conflict', message: 'changed by hand' }
              : { type: 'data', message: 'no' },
        }),
      );
    };
    await push();
    const letters = await readDeadLetters(pusher.db.database, { flow: 'erp', limit: 10 });
    expect(letters.map(({ deadSince }) => deadSince)).toEqual(
      [3, 2, 1].map((second) => `2030-01-01T00:00:0${second}.000000Z`),
    );
    expect(letters.find(({ key }) => key === keyOf(1))).toMatchObject({
      flow: 'erp',
      kind: 'award',
      sourcingEvent: event,
      errorType: 'conflict',
      lastError: 'changed by hand',
    });
    const [first] = await readDeadLetters(pusher.db.database, { limit: 1 });
    const rest = await readDeadLetters(pusher.db.database, { limit: 10, ...(first && { after: first }) });
    expect([first, ...rest]).toEqual(letters);
    expect(await readDeadLetters(pusher.db.database, { flow: 'other', limit: 10 })).toEqual([]);
  });
});
