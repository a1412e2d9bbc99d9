/**
 * Deliveries of the service (claimed, signed, sent over the guarded fetch, written down) against a bare loop of the same
 * signed POSTs over undici with as many connections, to a receiver in a process of its own, over kept HTTPS connections.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { z } from 'zod';
import { type Installation, startInstalledService } from '#cli/installation.ts';
import { signBody } from '#contract/signature.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';
import { median, megabytes, printTable } from './figures.ts';
import { noteGoal } from './goals.ts';
import type { ReceiverOrder, ReceiverReport } from './receiver-process.ts';
import { call, createOrganisation, localCertificates } from './set-up.ts';

/** Webhooks, each at an origin of its own, and connections to each: what the deliverer uses at once. */
const webhooks = 8;
const connectionsEach = 4;
const rounds = 5;
const warmUp = 2_000;
/** A second or more: a round is ended by looks every 10 ms, and each webhook begins with small claims. */
const deliveriesPerRound = 32_000;
const deliveriesForMemory = 20_000;

/** Runs it; prints both rates with their ratio, the CPU time of this process for each, and its memory on the way. */
export async function benchDeliveries(installation: Installation): Promise<void> {
  const service = await startInstalledService(installation, { port: 0 });
  const receiver = await startReceiver(installation);
  const pools = receiver.ports.map(
    (port) =>
      new Pool(`https://localhost:${port}`, {
        connections: connectionsEach,
        connect: { ca: localCertificates(installation).caPem },
      }),
  );
  try {
    const webhookIds = await createWebhooks(service.url, installation, receiver.ports);
    const ours = async (count: number) => {
      // Asked first: a sweep of the service may begin with them at any moment.
      const all = (await receiver.count()) + count;
      await enqueue(installation, webhookIds, count);
      return measured(count, async () => {
        await service.sweep();
        // Only then is the service asked whether it is done: each answer is a query, which would be measured, too.
        while ((await receiver.count()) < all) await sleep(10);
        while (!(await service.isIdle())) await sleep(2);
      });
    };
    const bare = (count: number) => measured(count, () => sendBare(pools, count));
    await ours(warmUp);
    await bare(warmUp);
    const all: { ours: Measured; bare: Measured }[] = [];
    for (let round = 0; round < rounds; round += 1)
      all.push({ ours: await ours(deliveriesPerRound), bare: await bare(deliveriesPerRound) });
    const middle = (figure: (round: (typeof all)[number]) => number) => median(all.map(figure));
    console.log(
      `Deliveries against a bare loop of signed POSTs, ${webhooks} webhooks with ${connectionsEach} connections each, HTTPS`,
    );
    printTable([
      ['', 'per second', 'CPU each'],
      [
        'deliveries',
        `${Math.round(middle((one) => one.ours.perSecond))}`,
        `${Math.round(middle((one) => one.ours.cpuUs))} us`,
      ],
      [
        'bare',
        `${Math.round(middle((one) => one.bare.perSecond))}`,
        `${Math.round(middle((one) => one.bare.cpuUs))} us`,
      ],
      ['deliveries : bare', middle((one) => one.ours.perSecond / one.bare.perSecond).toFixed(2), ''],
    ]);
    const ratio = middle((one) => one.ours.perSecond / one.bare.perSecond);
    noteGoal({ name: 'deliveries : bare loop of POSTs', measured: ratio, least: 0.4 });
    const memory = [process.memoryUsage.rss()];
    for (let quarter = 0; quarter < 4; quarter += 1) {
      await ours(deliveriesForMemory / 4);
      memory.push(process.memoryUsage.rss());
    }
    console.log(`  memory over ${deliveriesForMemory} more deliveries: ${memory.map(megabytes).join(', ')}\n`);
    const sent = 2 * (warmUp + rounds * deliveriesPerRound) + deliveriesForMemory;
    const received = await receiver.count();
    if (received !== sent) throw new Error(`The receiver counted ${received} requests of ${sent}.`);
  } finally {
    await service.close(0);
    for (const pool of pools) await pool.destroy();
    await receiver.close();
  }
}

interface Measured {
  perSecond: number;
  cpuUs: number;
}

async function measured(count: number, run: () => Promise<void>): Promise<Measured> {
  const cpuBefore = process.cpuUsage();
  const began = performance.now();
  await run();
  const elapsedMs = performance.now() - began;
  const { user, system } = process.cpuUsage(cpuBefore);
  return { perSecond: (count / elapsedMs) * 1000, cpuUs: (user + system) / count };
}

export interface Receiver {
  readonly ports: number[];
  /** How many requests it has answered. */
  count(): Promise<number>;
  close(): Promise<void>;
}

export async function startReceiver(installation: Installation): Promise<Receiver> {
  const child: ChildProcess = fork(new URL('receiver-process.ts', import.meta.url));
  const ask = async (order: ReceiverOrder) => {
    const answer = once(child, 'message');
    child.send(order);
    return ((await answer) as [ReceiverReport])[0];
  };
  const { certPem, keyPem } = localCertificates(installation);
  const report = await ask({ listen: { ports: webhooks, certPem, keyPem } });
  if (!('listening' in report)) throw new Error('The receiver did not begin to listen.');
  return {
    ports: report.listening,
    count: async () => {
      const counted = await ask('count');
      return 'received' in counted ? counted.received : Number.NaN;
    },
    close: async () => {
      const gone = once(child, 'exit');
      child.kill();
      await gone;
    },
  };
}

const created = z.looseObject({ uuid: z.string() });

export async function createWebhooks(
  url: string,
  installation: Installation,
  ports: readonly number[],
): Promise<string[]> {
  const { key } = await createOrganisation(url, await installation.adminToken(), ['webhooks']);
  const webhookIds: string[] = [];
  for (const port of ports) {
    const hook = { name: 'bench', url: `https://localhost:${port}/hook`, triggers: ['JOB_UPDATED'] };
    const { uuid } = created.parse(await call(`${url}/api/webhooks`, key, 'POST', hook));
    webhookIds.push(uuid);
  }
  return webhookIds;
}

/** As jobs that end would write them, without waking anybody. */
export async function enqueue({ open }: Installation, webhookIds: readonly string[], count: number): Promise<void> {
  for (const webhookId of webhookIds)
    await open.database.query(
      `insert into service.deliveries (id, webhook_id, trigger, coalesces, payload, created, state, due)
       select id, $1, 'JOB_UPDATED', false,
         jsonb_build_object('job', gen_random_uuid(), 'type', 'CREATE_SOURCING_EVENT', 'status', 'COMPLETED'),
         clock_timestamp(), 'pending', clock_timestamp() - interval '1 second'
       from unnest($2::uuid[]) as id`,
      [webhookId, Array.from({ length: count / webhookIds.length }, () => timeOrderedId(Date.now()))],
    );
}

/** The same bytes and headers, signed one by one, over as many connections. */
async function sendBare(pools: readonly Pool[], count: number): Promise<void> {
  let left = count;
  const loop = async (pool: Pool) => {
    while (left > 0) {
      left -= 1;
      const id = crypto.randomUUID();
      const body = JSON.stringify({
        trigger: 'JOB_UPDATED',
        timestamp: new Date().toISOString(),
        payload: { job: id, type: 'CREATE_SOURCING_EVENT', status: 'COMPLETED' },
      });
      const answer = await pool.request({
        path: '/hook',
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-signature': signBody(body, 'signing-key-of-the-benchmark'),
          'webhook-id': id,
          'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
          'webhook-attempt': '1',
        },
        body,
      });
      await answer.body.dump();
      if (answer.statusCode !== 204) throw new Error(`The receiver answered ${answer.statusCode}.`);
    }
  };
  await Promise.all(pools.flatMap((pool) => Array.from({ length: connectionsEach }, () => loop(pool))));
}
