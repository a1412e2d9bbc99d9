/** A target that has become a standby, as the old primary does after a failover until its name leads to the new one. */
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
