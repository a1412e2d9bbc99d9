/** The lines that the log has for outcomes and for changes of state. */
import { describe, expect, test } from 'vitest';
import { createRefusals } from '#bridge/receive/refusals.ts';
import { createLogger, type Logger } from '#platform/log.ts';
import { testClock } from '../../parts.ts';
import { createFakeErp } from '../../push/fake-erp.ts';
import { createPusher, event, keyOf, supplier } from '../../push/pusher.ts';

interface Line extends Record<string, unknown> {
  level: string;
  msg: string;
}

function listen(level = 'info'): { log: Logger; lines: Line[] } {
  const lines: Line[] = [];
  const write = (line: string) => lines.push(JSON.parse(line) as Line);
  return { lines, log: createLogger({ name: 'test', level, destination: { write } }) };
}

describe('an outcome is one line', () => {
  test('with the names, the reference, the duration and the ids that join it with pull and history', async () => {
    const pusher = await createPusher();
    const erp = createFakeErp();
    const { log, lines } = listen();
    await pusher.award([1, '10.50']);
    const pull = '017f22e2-79b0-7cc3-98c4-dc0c0c07398f';
    await pusher.db.database.query('update bridge.flow_documents set pull = $1', [pull]);
    erp.onWrite = async (operations, apply) => {
      pusher.clock.advance(250);
      return operations.map(apply);
    };
    await (await pusher.worker(erp, { log })).push();
    const [attempt] = await pusher.db.database.query<{ id: string }>('select id from bridge.attempts');
    expect(lines).toHaveLength(1);
    expect(JSON.stringify(lines[0])).not.toMatch(/10\.5|EUR/);
    expect(lines[0]).toMatchObject({
      level: 'info',
      msg: 'award created: PO-1',
      flow: 'erp',
      kind: 'award',
      document: keyOf(1),
      event: { id: event, name: 'Office chairs' },
      supplier: { id: supplier(1), name: 'Supplier 1' },
      outcome: 'created',
      reference: 'PO-1',
      durationMs: 250,
      attempt: attempt?.id,
      idempotencyKey: erp.operations[0]?.idempotencyKey,
      pull,
    });
  });

  test('with what was sent and answered at debug, without the secrets of the settings', async () => {
    const pusher = await createPusher(4, { settings: { password: 'hunter2-and-more' } });
    const erp = createFakeErp();
    const { log, lines } = listen('debug');
    await pusher.award([1, '10']);
    erp.onWrite = async () => [
      { status: 'rejected', error: { type: 'data', message: 'login hunter2-and-more may not write' } },
    ];
    await (await pusher.worker(erp, { log })).push();
    expect(lines.map(({ msg }) => msg)).toEqual([
      'sent: create',
      'answered: rejected',
      'award rejected: login [secret] may not write',
    ]);
    expect(JSON.parse(String(lines[0]?.['sent']))).toEqual(erp.operations[0]?.document);
    expect(JSON.stringify(lines)).not.toContain('hunter2');
  });
});

test('a circuit that opens and closes is a line each', async () => {
  const pusher = await createPusher(4, { circuit: { failures: 2, seconds: 60 } });
  const erp = createFakeErp();
  const { log, lines } = listen();
  await pusher.award([0, '1'], [1, '1'], [2, '1']);
  const plain = erp.onWrite;
  erp.onWrite = async (operations) =>
    operations.map(() => ({ status: 'retry', error: { type: 'transient', message: 'down' } }));
  await (await pusher.worker(erp, { log })).push();
  erp.onWrite = plain;
  pusher.clock.advance(61_000);
  await (await pusher.worker(erp, { log })).push();
  expect(lines.filter(({ state }) => state !== undefined)).toMatchObject([
    { flow: 'erp', state: 'circuit open', until: '2030-01-01T00:01:00.000000Z', level: 'warn' },
    { flow: 'erp', state: 'circuit closed', level: 'info' },
  ]);
});

describe('a change of state', () => {
  const clock = testClock();

  test('of the signatures is logged at ten refusals in a row, at a hundred, and when one is accepted again', () => {
    const { log, lines } = listen();
    const refusals = createRefusals({ log, clock, sources: new Set(['main']) });
    const refuse = (times: number, source = 'main') => {
      for (let n = 0; n < times; n += 1) refusals.refused(source, 'wrong-signature');
    };
    refuse(9);
    refusals.accepted('main');
    refuse(50, 'somebody’s guess');
    expect(lines).toEqual([]);
    refuse(99);
    refuse(1);
    refusals.accepted('main');
    refusals.accepted('main');
    expect(lines).toMatchObject([
      { level: 'warn', source: 'main', state: 'signatures refused', count: 10 },
      { level: 'warn', source: 'main', state: 'signatures refused', count: 100 },
      { level: 'info', source: 'main', state: 'signatures accepted', count: 100 },
    ]);
  });
});
