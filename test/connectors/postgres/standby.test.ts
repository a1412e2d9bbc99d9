/** A standby: the old primary after a failover, until its name leads to the new one; or what an intake reads from. */
import { expect, test } from 'vitest';
import { hasClusters, startCluster, startReplica } from '../../harness/postgres-cluster.ts';
import { award, never, openSession, operationOf, statuses } from './sessions.ts';

test.skipIf(!hasClusters())(
  'a standby takes no write, and the flow waits for its promotion instead of a person',
  async () => {
    const primary = await startCluster();
    const first = await openSession(primary.url('postgres'));
    expect(statuses(await first.write([operationOf(award(1))], never))).toEqual(['created']);
    const standby = await startReplica(primary);
    const session = await openSession(standby.url('postgres'));
    const [refused] = await session.write([operationOf(award(2))], never);
    const message = expect.stringContaining('is a standby, which takes no writes') as string;
    expect(refused).toEqual({ status: 'retry', error: { type: 'transient', message } });
    await expect(session.lookup([award(1)], never)).rejects.toThrow('is a standby, which takes no writes');
    await standby.query('select pg_promote()');
    expect(statuses(await session.write([operationOf(award(2))], never))).toEqual(['created']);
  },
  60_000,
);

test.skipIf(!hasClusters())(
  'an intake reads from a standby, and its check finds nothing wrong; of a flow to it the check says so',
  async () => {
    const primary = await startCluster();
    await primary.query(`create table vendor (no text primary key, name text, changed timestamptz default now());
      insert into vendor (no, name) values ('V-1', 'Acme')`);
    const url = (await startReplica(primary)).url('postgres');
    const record = { external_id: 'no', name: 'name' };
    const intake = await openSession(url, {
      read: { supplier: { from: 'vendor', unique: 'no', changed: 'changed', record } },
    });
    const ids: string[] = [];
    for await (const { records } of intake.read?.('supplier', undefined, never) ?? [])
      ids.push(...records.map((each) => ('external_id' in each ? each.external_id : '')));
    expect(ids).toEqual(['V-1']);
    expect((await intake.check()).map(({ name, ok }) => [name, ok])).toEqual([
      ['server', true],
      ['read vendor', true],
    ]);
    const message = expect.stringContaining('is a standby, which takes no writes') as string;
    expect(await (await openSession(url)).check()).toEqual([{ name: 'server', ok: false, message }]);
  },
  60_000,
);
