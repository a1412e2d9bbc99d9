/** The console's page of actions: the logs of bridge and service as one, where the database has both. */
import { expect, test } from 'vitest';
import { type AuditedProgram, recordAction } from '#platform/audit-log.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { operator, startConsole } from './console-server.ts';

const { database } = await createTestDatabase();
const server = await startConsole(database);

async function record(program: AuditedProgram, minute: number) {
  const by = { who: { kind: 'token', name: 'operator' }, from: '192.0.2.7' } as const;
  const when = `2026-03-01T10:0${minute}:00.000000Z`;
  await recordAction(database, program, {
    ...by,
    what: 'thing.change',
    object: `thing ${minute}`,
    when,
    outcome: 'allowed',
  });
}

for (const [minute, program] of (['service', 'bridge', 'service'] as const).entries()) await record(program, minute);

async function read(query = ''): Promise<{ status: number; shown: string[] }> {
  const answer = await fetch(`${server.url}/api/actions${query}`);
  const { actions = [] } = (await answer.json()) as { actions?: { program: string; object: string }[] };
  return { status: answer.status, shown: actions.map(({ program, object }) => `${program}: ${object}`) };
}

test('shows both, the latest first, and one of them on request', async () => {
  expect(await read()).toEqual({ status: 200, shown: ['service: thing 2', 'bridge: thing 1', 'service: thing 0'] });
  expect((await read('?program=bridge')).shown).toEqual(['bridge: thing 1']);
});

test('is not for a viewer of some flows', async () => {
  server.viewer = { ...operator, flows: ['sap'] };
  expect(await read()).toEqual({ status: 403, shown: [] });
});

test('shows the log of the bridge alone where the database has no other', async () => {
  const { database: alone } = await createTestDatabase();
  await alone.query('drop schema service cascade');
  const { url } = await startConsole(alone);
  expect(await (await fetch(`${url}/api/actions`)).json()).toEqual({ actions: [], next: null });
});
