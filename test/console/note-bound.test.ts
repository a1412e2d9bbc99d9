/** Entries of the audit log cannot be deleted: who may change nothing must not fill the database with them. */
import { expect, test } from 'vitest';
import { createTestDatabase } from '../harness/test-database.ts';
import { operator, startConsole } from './console-server.ts';

const { database } = await createTestDatabase();
const server = await startConsole(database);

/** More than two minutes may have: the test may begin in one and end in the next. */
const many = 241;

async function exportAwards() {
  const answer = await fetch(`${server.url}/api/events/export?id=none`);
  const { detail } = (await answer.json()) as { detail?: string };
  return { status: answer.status, detail, retryAfter: answer.headers.get('retry-after') };
}

test('a viewer who exports again and again is told to wait, and nobody else is', async () => {
  server.viewer = { name: 'Vera', role: 'viewer', flows: 'all' };
  let refused: Awaited<ReturnType<typeof exportAwards>> | undefined;
  for (let tries = 0; tries < many && refused === undefined; tries += 1) {
    const answer = await exportAwards();
    if (answer.status !== 200) refused = answer;
  }
  expect(refused).toEqual({ status: 429, detail: expect.stringContaining('audit log'), retryAfter: '60' });
  server.viewer = { name: 'Bert', role: 'viewer', flows: 'all' };
  expect((await exportAwards()).status).toBe(200);
});

test('an operator is not bounded', async () => {
  server.viewer = operator;
  for (let tries = 0; tries < many; tries += 1) expect((await exportAwards()).status).toBe(200);
});
