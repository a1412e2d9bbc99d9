/** One organisation's calls wait for each other. The connections to the database are not all theirs. */
import { Client } from 'pg';
import { expect, test } from 'vitest';
import { eventually } from '../harness/eventually.ts';
import { createEvent, eventPayload } from '../harness/sourcing.ts';
import { startTestService } from '../harness/test-service.ts';

const service = await startTestService();

/** How many transactions wait for a lock. */
async function waiting(): Promise<number> {
  const [row] = await service.db.database.query<{ count: number }>(
    `select count(*)::int as count from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return row?.count ?? 0;
}

async function connect(): Promise<Client> {
  const client = new Client({ connectionString: service.db.url });
  await client.connect();
  return client;
}

test('40 commands that wait for one event leave the calls of others alone', async () => {
  const [attacker, neighbour] = [await service.organisation(), await service.organisation()];
  const [event, theirs] = [
    await createEvent(attacker, eventPayload()),
    await createEvent(neighbour, eventPayload({ suppliers: [] })),
  ];
  const slow = await connect();
  try {
    await slow.query('begin');
    await slow.query('select from service.sourcing_events where id = $1 for update', [event]);
    const commands = Array.from({ length: 40 }, () => attacker.call('POST', `/desk/events/${event}/delete`, {}));
    await eventually('some of them wait for the lock', async () => (await waiting()) >= 4);
    expect((await neighbour.call('GET', '/api/feeds/sourcing-events')).status).toBe(200);
    expect((await neighbour.call('POST', `/desk/events/${theirs}/delete`, {})).status).toBe(200);
    expect(await waiting()).toBe(4);
    await slow.query('rollback');
    const statuses = (await Promise.all(commands)).map(({ status }) => status).toSorted((a, b) => a - b);
    expect(statuses).toEqual([200, ...Array(39).fill(409)]);
  } finally {
    await slow.end();
  }
});

test('40 reads that hang leave the calls of others alone', async () => {
  const [attacker, neighbour] = [await service.organisation(), await service.organisation()];
  const slow = await connect();
  try {
    await slow.query('begin; lock table service.sourcing_requests in access exclusive mode');
    const reads = Array.from({ length: 40 }, () => attacker.call('GET', '/api/manage/sourcing_requests'));
    await eventually('some of them wait', async () => (await waiting()) >= 4);
    expect((await neighbour.call('GET', '/api/feeds/awards')).status).toBe(200);
    expect(await waiting()).toBe(4);
    await slow.query('rollback');
    expect(new Set((await Promise.all(reads)).map(({ status }) => status))).toEqual(new Set([200]));
  } finally {
    await slow.end();
  }
});
