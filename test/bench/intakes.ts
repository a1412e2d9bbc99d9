/**
 * Suppliers from a table of PostgreSQL to the service: the intake reads them through the connector postgres, and sends
 * them within the quotas of the API (60 submissions an hour, which is enough for 60,000). Measured: the requests of a first
 * run, against those that the limits of the API allow at best; its time; the memory; then a poll with nothing changed.
 * BENCH_SUPPLIERS: how many instead of 50,000.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { readIntakeNow, resumeIntake } from '#bridge/intake/control-intakes.ts';
import { createIntakeRun } from '#bridge/intake/run-intake.ts';
import { isThrough, readIntakeStatuses } from '#bridge/operate/status/intake-status.ts';
import { prepareIntakes } from '#bridge/prepare-intakes.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { certificateFor, type Installation } from '#cli/installation.ts';
import { startLocalPrograms } from '#cli/local-programs.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { createRegistry } from '#platform/metrics.ts';
import { megabytes, printTable } from './figures.ts';
import { noteGoal } from './goals.ts';

const suppliers = Number(process.env['BENCH_SUPPLIERS'] ?? 50_000);
const inSubmission = 1_000;
const giveUpMs = 60 * 60_000;

/** Prints the requests, the time and the memory of a first run, and of a poll without a change. */
export async function benchIntakes(installation: Installation): Promise<void> {
  const { database, url } = installation.open;
  const programs = await startLocalPrograms(installation, { freePorts: true });
  await using opened = new AsyncDisposableStack();
  try {
    await database.query('create table public.bench_vendor (no text primary key, name text, changed timestamptz)');
    await database.query(
      `insert into public.bench_vendor
       select 'V-' || n, 'Vendor ' || n, now() - interval '1 day' from generate_series(1, $1::int) n`,
      [suppliers],
    );
    const settings = bridgeSettings.parse({
      sources: [{ name: 'bench', base_url: programs.service.url, api_key: programs.setup.deskKey, suppliers: true }],
      intakes: [
        {
          name: 'bench',
          source: 'bench',
          connector: 'postgres',
          settings: {
            url,
            read: {
              supplier: {
                from: 'public.bench_vendor',
                unique: 'no',
                changed: 'changed',
                record: { external_id: 'no', name: 'name' },
              },
            },
          },
        },
      ],
    });
    const requests = new Map<string, number>();
    const fetch: typeof installation.outgoing.fetch = (request) => {
      const path = (request.path ?? new URL(request.url).pathname).split('?')[0] ?? '';
      const name = `${request.method} ${path.split('/').slice(0, 4).join('/')}`;
      requests.set(name, (requests.get(name) ?? 0) + 1);
      return installation.outgoing.fetch(request);
    };
    const [prepared] = await prepareIntakes(
      {
        settings,
        tls: await certificateFor(installation, settings, false),
        dataDir: installation.dataDir,
        sweepMs: 1_000,
        actionDays: 730,
        database,
        fetch,
        secrets: installation.secrets,
        clock: systemClock,
        log: silentLogger,
        registry: createRegistry(),
      },
      opened,
    );
    if (!prepared) throw new Error('There is no intake.');
    const { signal } = new AbortController();
    const run = createIntakeRun(prepared.deps);
    let rssMax = 0;
    const untilThrough = async () => {
      const began = performance.now();
      for (;;) {
        await prepared.lists(signal);
        await run(signal);
        rssMax = Math.max(rssMax, process.memoryUsage.rss());
        const [status] = await readIntakeStatuses(database, settings, timestampNow(systemClock));
        // The local organisation has the suppliers of its tender.
        if (status?.pausedKind === 'first-run')
          await resumeIntake(database, 'bench', { agreeToArchive: false }, timestampNow(systemClock));
        else if (status?.pausedReason) throw new Error(status.pausedReason);
        else if (status && isThrough(status)) return performance.now() - began;
        if (performance.now() - began > giveUpMs) throw new Error(`Not through: ${status?.lag.why}`);
        await sleep(100);
      }
    };
    const rssBefore = process.memoryUsage.rss();
    const firstMs = await untilThrough();
    const first = new Map(requests);
    requests.clear();
    await readIntakeNow(database, 'bench', timestampNow(systemClock));
    const againMs = await untilThrough();
    const [held] = await database.query<{ count: number }>(
      `select count(*)::int as count from bridge.intake_records where submitted is not null and dead_since is null`,
    );
    if (held?.count !== suppliers) throw new Error(`${held?.count} of ${suppliers} suppliers were taken.`);
    const posts = [...first].find(([name]) => name.startsWith('POST'))?.[1] ?? 0;
    const best = Math.ceil(suppliers / inSubmission);
    console.log(`${suppliers.toLocaleString('en')} suppliers from a table to the service`);
    printTable([
      ['', 'time', ...first.keys()],
      ['first run', `${(firstMs / 1000).toFixed(1)} s`, ...[...first.values()].map(String)],
      [
        'nothing changed',
        `${(againMs / 1000).toFixed(1)} s`,
        ...[...first.keys()].map((name) => String(requests.get(name) ?? 0)),
      ],
    ]);
    console.log(`  at best ${best} submissions; memory ${megabytes(rssBefore)} before, at most ${megabytes(rssMax)}\n`);
    noteGoal({ name: 'intake of suppliers, submissions over the fewest', measured: posts - best, most: 1 });
    const others = [...requests.values()].reduce((sum, count) => sum + count, 0);
    noteGoal({ name: 'intake of suppliers, requests of a poll without a change', measured: others, most: 0 });
  } finally {
    await opened.disposeAsync();
    await programs.close();
  }
}
