/**
 * The webhook endpoint as the bridge mounts it (signature, parsing, durable commit) against a bare node:http server that
 * reads the body, verifies the HMAC and answers. Both on plain HTTP in this process, loaded by another one in turns.
 */
import { createHmac, createSecretKey, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { migrateBridge } from '#bridge/create-bridge.ts';
import { createWebhookEndpoint } from '#bridge/receive/webhook-endpoint.ts';
import type { Installation } from '#cli/installation.ts';
import { feedNames } from '#contract/feed.ts';
import { systemClock } from '#platform/clock.ts';
import { createApplication } from '#platform/http/application.ts';
import { listen } from '#platform/http/server.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { median, megabytes, printTable, quantile } from './figures.ts';
import { startLoad } from './load.ts';

const signingKey = 'signing-key-of-the-benchmark';
const rounds = 7;
const loads = [
  { connections: 1, requests: 300 },
  { connections: 16, requests: 3_000 },
  { connections: 128, requests: 8_000 },
];

/**
 * Runs it; prints requests per second on both sides and their ratio, the CPU time of this process for one request (which
 * neighbours on the machine disturb less), and how many notifications shared a commit.
 */
export async function benchWebhookEndpoint(installation: Installation): Promise<void> {
  await migrateBridge(installation.open.database);
  const registry = new Registry();
  const application = createApplication({ log: silentLogger, registry, readiness: {} });
  const keys = [createSecretKey(signingKey, 'utf8')];
  const { route } = createWebhookEndpoint({
    database: installation.open.database,
    clock: systemClock,
    log: silentLogger,
    registry,
    bodyBytesMax: 1_048_576,
    backlogMax: 10_000,
    signingKeys: { keysOf: () => keys, readAgain: async () => false },
    sources: new Map([['main', { feeds: new Set(feedNames), freshnessMs: undefined, bearer: undefined }]]),
    wakePull: () => undefined,
  });
  application.addDirect(route);
  application.finish();
  const endpoint = await listen(application.listener, { host: '127.0.0.1', port: 0 });
  const bare = await startBareServer();
  const load = startLoad();
  const rssBefore = process.memoryUsage.rss();
  const rows = [
    ['connections', 'endpoint', 'bare', 'endpoint : bare', 'CPU each', 'CPU bare', 'per commit', 'p50', 'p99'],
  ];
  try {
    for (const { connections, requests } of loads) {
      const run = async (port: number) => {
        const job = { port, connections, requests: makeRequests(requests) };
        const cpuBefore = process.cpuUsage();
        const { elapsedMs, latenciesMs } = await load.run(job);
        const { user, system } = process.cpuUsage(cpuBefore);
        return { perSecond: (requests / elapsedMs) * 1000, cpuUs: (user + system) / requests, latenciesMs };
      };
      await run(endpoint.port);
      await run(bare.port);
      const stored = await countersOf(registry);
      const measured: { ours: Awaited<ReturnType<typeof run>>; bare: Awaited<ReturnType<typeof run>> }[] = [];
      for (let round = 0; round < rounds; round += 1)
        measured.push({ ours: await run(endpoint.port), bare: await run(bare.port) });
      const now = await countersOf(registry);
      const latencies = measured.flatMap(({ ours }) => ours.latenciesMs);
      const middle = (figure: (round: (typeof measured)[number]) => number) => median(measured.map(figure));
      rows.push([
        String(connections),
        `${Math.round(middle(({ ours }) => ours.perSecond))}/s`,
        `${Math.round(middle(({ bare: { perSecond } }) => perSecond))}/s`,
        middle(({ ours, bare: { perSecond } }) => ours.perSecond / perSecond).toFixed(2),
        `${Math.round(middle(({ ours }) => ours.cpuUs))} us`,
        `${Math.round(middle(({ bare: { cpuUs } }) => cpuUs))} us`,
        ((now.notifications - stored.notifications) / (now.commits - stored.commits)).toFixed(1),
        ...[0.5, 0.99].map((share) => `${quantile(latencies, share).toFixed(1)} ms`),
      ]);
    }
  } finally {
    await load.close();
    await endpoint.close(0);
    await bare.close();
  }
  console.log('Webhook endpoint (verify + durable commit) against a bare node:http server (verify only)');
  printTable(rows);
  console.log(`  memory ${megabytes(rssBefore)} before, ${megabytes(process.memoryUsage.rss())} after\n`);
}

async function countersOf(registry: Registry): Promise<{ notifications: number; commits: number }> {
  const sum = async (name: string) => {
    const metric = await registry.getSingleMetric(name)?.get();
    return (metric?.values ?? []).reduce((total, { value }) => total + value, 0);
  };
  return {
    notifications: await sum('bridge_notifications_total'),
    commits: await sum('bridge_inbox_commits_total'),
  };
}

let made = 0;

/** Distinct and signed beforehand, like what the service sends. */
function makeRequests(count: number): string[] {
  return Array.from({ length: count }, () => {
    made += 1;
    const body = JSON.stringify({
      trigger: 'AWARDS_FEED_UPDATED',
      timestamp: '2026-01-15T10:00:00.000000Z',
      payload: { feed_url: `https://sourcing.example/api/feeds/awards?modified_after=${made}`, number: made },
    });
    const signature = createHmac('sha256', signingKey).update(body).digest('hex');
    return [
      'POST /webhooks/main HTTP/1.1',
      'Host: localhost',
      'Content-Type: application/json',
      `X-Signature: hmac-sha256=${signature}`,
      `Content-Length: ${body.length}`,
      '',
      body,
    ].join('\r\n');
  });
}

async function startBareServer(): Promise<{ port: number; close: () => Promise<void> }> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const expected = createHmac('sha256', signingKey).update(Buffer.concat(chunks)).digest();
      const given = Buffer.from(String(request.headers['x-signature']).slice('hmac-sha256='.length), 'hex');
      const good = given.length === expected.length && timingSafeEqual(given, expected);
      const answer = good ? '{"status":"accepted"}' : '{"status":"refused"}';
      response
        .writeHead(good ? 200 : 401, { 'Content-Type': 'application/json', 'Content-Length': answer.length })
        .end(answer);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
