/** One organisation's receivers never answer. The notifications of the others do not wait for them. */
import { expect, test } from 'vitest';
import type { GuardedRequest, GuardedResponse } from '#platform/guarded-fetch/guarded-request.ts';
import { eventually } from '../harness/eventually.ts';
import type { TestOrganisation } from '../harness/test-organisation.ts';
import { startTestService } from '../harness/test-service.ts';

/** Receivers by the host: `dead-…` never answers until it is told to. */
function receivers() {
  const open = new Map<GuardedRequest, (answer: GuardedResponse) => void>();
  const delivered: string[] = [];
  const answer = (status: number): GuardedResponse => ({
    status,
    headers: {},
    body: Buffer.of(),
    truncated: false,
  });
  return {
    open,
    delivered,
    fetch: async (asked: GuardedRequest): Promise<GuardedResponse> => {
      const { hostname } = new URL(asked.url);
      if (!hostname.startsWith('dead-')) {
        delivered.push(hostname);
        return answer(200);
      }
      const { promise, resolve, reject } = Promise.withResolvers<GuardedResponse>();
      open.set(asked, resolve);
      asked.signal?.addEventListener('abort', () => reject(asked.signal?.reason));
      return promise;
    },
    /** All that hang fail now. */
    fail: () => {
      for (const [asked, resolve] of open) {
        open.delete(asked);
        resolve(answer(500));
      }
    },
  };
}

const remote = receivers();
const service = await startTestService({ fetch: remote.fetch });

async function webhooksOf(organisation: TestOrganisation, hosts: readonly string[]): Promise<string[]> {
  await service.operator('PUT', `/admin/organisations/${organisation.id}/webhook-domains`, { domains: ['*.example'] });
  await service.operator('PUT', `/admin/organisations/${organisation.id}/limits`, {
    webhooks_max: 100,
    enabled: false,
  });
  return Promise.all(
    hosts.map(async (host) => {
      const body = { name: host, url: `https://${host}/hook`, triggers: ['JOB_UPDATED'] };
      return (await organisation.call('POST', '/api/webhooks', body)).body.uuid as string;
    }),
  );
}

const notify = async (organisation: TestOrganisation, webhooks: readonly string[]) => {
  for (const uuid of webhooks) expect((await organisation.call('POST', `/api/webhooks/${uuid}/test`)).status).toBe(202);
};

test('40 dead receivers hold 16 slots; others are delivered to meanwhile, and later those of their own organisation', async () => {
  const [attacker, neighbour] = [await service.organisation(), await service.organisation()];
  const dead = await webhooksOf(
    attacker,
    Array.from({ length: 40 }, (_, at) => `dead-${at}.a.example`),
  );
  const [own] = await webhooksOf(attacker, ['alive.a.example']);
  const [theirs] = await webhooksOf(neighbour, ['alive.b.example']);
  await notify(attacker, dead);
  await eventually('the slots of the organisation are taken', async () => remote.open.size >= 16);
  await notify(neighbour, [theirs ?? '']);
  await eventually('the neighbour is delivered to', async () => remote.delivered.includes('alive.b.example'));
  expect(remote.open.size).toBe(16);

  // From now on all of them are known to fail, and leave half of the organisation's slots to its other webhooks.
  await eventually('each has failed once', async () => {
    remote.fail();
    const [row] = await service.db.database.query<{ count: number }>(
      'select count(*)::int as count from service.webhooks where failing_since is not null',
    );
    return row?.count === 40;
  });
  await service.db.database.query("update service.deliveries set due = now() where state = 'pending'");
  await service.service.sweep();
  await eventually('half of the slots are taken', async () => remote.open.size >= 8);
  await notify(attacker, [own ?? '']);
  await eventually('the own receiver is delivered to', async () => remote.delivered.includes('alive.a.example'));
  expect(remote.open.size).toBe(8);
  remote.fail();
});
