/**
 * The backup drill, with real processes: a backup is made while awards are delivered, the bridge goes on delivering, is
 * killed with -9 and loses its data folder; the backup is restored. The ERP makes a second object of every repeated call,
 * and drops files of suppliers for an intake, the last one moments before the kill.
 * It starts a dozen programs, so it runs with `npm run test:restore` only.
 */
import { existsSync } from 'node:fs';
import { appendFile, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { readOpenLoss } from '#bridge/ledger/lost-commits/open-loss.ts';
import { createDatabase } from '#platform/database/database.ts';
import { silentLogger } from '#platform/log.ts';
import { freePort } from '../harness/free-port.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { readRows, readServiceState, readUnfinished } from './awards-in-sql.ts';
import { createSource, ledgerConfiguration } from './ledger-bridge.ts';
import { readLedger, replayLedger } from './ledger-connector.ts';
import { openClient, startPlayers } from './players.ts';
import { createInstallation, type Installation, lineOf, type Program, until, useEmbedded } from './program-process.ts';

let service: Installation;
let bridge: Installation;
let ledger: string;
let backup: string;
let exported: string;

const held = () => readLedger(ledger).length;
const run = async (...args: string[]) => {
  const program = bridge.start(args);
  const { code } = await program.end;
  return { code, output: [...program.lines, ...program.errors].join('\n') };
};
/** What `bridge status` shows of the restore, without a process for each look. */
const restoreState = () =>
  useEmbedded(bridge.dataDir, async (url) => {
    const database = createDatabase({ url, log: silentLogger, applicationName: 'test', poolMax: 1 });
    try {
      return await readOpenLoss(database);
    } finally {
      await database.close();
    }
  });
/** What the ERP drops: complete, as its marker says, once both files are there. */
async function dropSuppliers(name: string, suppliers: Readonly<Record<string, string>>) {
  const rows = Object.entries(suppliers).map((cells) => `${cells.join(';')}\n`);
  await writeFile(join(exported, name), `No;Name\n${rows.join('')}`);
  await writeFile(join(exported, `${name}.ok`), '');
}
/** The suppliers of the ERP as the service has them, and the submissions that brought them. */
const suppliersAtService = () =>
  useEmbedded(service.dataDir, async (url) => {
    const rows = await readRows<{ id: string; name: string }>(
      url,
      `select external_id as id, name from service.suppliers where external_id like 'ERP-%' order by 1`,
    );
    const submissions = await readRows<{ suppliers: unknown }>(
      url,
      `select suppliers from service.supplier_submissions where suppliers::text like '%ERP-%' order by number`,
    );
    return { suppliers: Object.fromEntries(rows.map(({ id, name }) => [id, name])), submissions };
  });
const building = async () =>
  (await readdir(dirname(bridge.dataDir))).filter((name) => name.startsWith(`${basename(bridge.dataDir)}.restoring-`));

describe.runIf(process.env['RESTORE_DRILL'])('a backup that was made under load', () => {
  beforeAll(async () => {
    service = await createInstallation();
    const baseUrl = /http\S+/.exec(await lineOf(service.start(['service', '--port', '0']), /ready/))?.[0] ?? '';
    const source = await createSource(service, baseUrl, []);
    const folder = await scratchFolder();
    ledger = join(folder, 'erp.jsonl');
    backup = join(folder, 'backup');
    exported = await scratchFolder();
    const vendors = {
      name: 'vendors',
      connector: 'file',
      source: 'main',
      poll_seconds: 1,
      settings: {
        directory: exported,
        csv: { delimiter: ';' },
        read: {
          supplier: {
            files: 'vendors*.csv',
            format: 'csv',
            content: 'delta',
            marker: '.ok',
            record: { external_id: 'No', name: 'Name' },
          },
        },
      },
    };
    const configuration = ledgerConfiguration(source, {
      bridge: { port: await freePort(), intakes: [vendors] },
      source: { quotas: { enabled: false }, poll_seconds: 1 },
    }) as { bridge: { flows: { settings: object }[] } };
    // The ERP is not in the data folder, so it is not lost with it.
    for (const flow of configuration.bridge.flows) flow.settings = { file: ledger };
    bridge = await createInstallation({ configuration });

    const players = startPlayers({ client: await openClient(baseUrl, source.apiKey), seed: 22, pauseMs: 20 });
    await dropSuppliers('vendors-1.csv', { 'ERP-1': 'One', 'ERP-2': 'Two' });
    const before = bridge.start(['bridge']);
    await until(
      'two awards are delivered',
      () => held() >= 2,
      () => failureOf(before, players.failure),
    );
    await until(
      'the suppliers of the ERP are at the service',
      async () => {
        // Where the service has suppliers already, a person agrees to the first run.
        if (Object.keys((await suppliersAtService()).suppliers).length === 2) return true;
        await run('bridge', 'resume', 'vendors');
        return false;
      },
      () => failureOf(before, players.failure),
    );
    const made = await run('backup', backup);
    if (made.code !== 0) throw new Error(made.output);
    const atBackup = held();
    await until(
      'more is delivered after the backup',
      () => held() >= atBackup + 4,
      () => failureOf(before, players.failure),
    );
    await dropSuppliers('vendors-2.csv', { 'ERP-2': 'Two, renamed', 'ERP-3': 'Three' });
    await until(
      'the suppliers that came after the backup are at the service',
      async () => Object.keys((await suppliersAtService()).suppliers).length === 3,
      () => failureOf(before, players.failure),
    );
    await players.finish();
    await dropSuppliers('vendors-3.csv', { 'ERP-3': 'Three, renamed', 'ERP-4': 'Four' });
    await until(
      'the last file is taken',
      () => !existsSync(join(exported, 'vendors-3.csv')),
      () => failureOf(before),
    );
    await before.kill();
    // Its database outlives it by design: it is stopped before the disk is lost.
    await useEmbedded(bridge.dataDir, async () => undefined);
    await rm(bridge.dataDir, { recursive: true });
  }, 240_000);

  test('a backup that lacks a file, or holds another, is refused by the name of the file, and leaves nothing', async () => {
    const secret = await readFile(join(backup, 'postgres.secret'));
    await appendFile(join(backup, 'postgres.secret'), ' ');
    expect(await run('restore', backup)).toEqual({
      code: 2,
      output: expect.stringMatching(/postgres.secret is not what was backed up/),
    });
    await rm(join(backup, 'postgres.secret'));
    expect(await run('restore', backup)).toEqual({
      code: 2,
      output: expect.stringMatching(/postgres.secret is missing/),
    });
    expect([existsSync(bridge.dataDir), await building()]).toEqual([false, []]);
    await writeFile(join(backup, 'postgres.secret'), secret);
  });

  test('a restore that is killed leaves no data folder, and the next one does all', async () => {
    const killed = bridge.start(['restore', backup]);
    await until(
      'it builds the folder',
      async () => (await building()).length > 0,
      () => failureOf(killed),
    );
    await killed.kill();
    expect(existsSync(bridge.dataDir)).toBe(false);
    expect(await run('restore', backup)).toEqual({ code: 0, output: expect.stringContaining('bridge status') });
    // A second one would destroy what runs.
    expect(await run('restore', backup)).toEqual({ code: 2, output: expect.stringContaining('holds something') });
    expect(await restoreState()).toMatchObject({ why: 'restored', flows: [{ flow: 'ledger', isSourceRead: false }] });
  });

  test('nothing is written before the source was read again, and then nothing twice: the ERP is as if nothing was lost', async () => {
    const atRestore = held();
    // Without a puller the source is not read again: the flow is held, whatever is due.
    const pusher = bridge.start(['bridge', '--role', 'push'], { LOG_LEVEL: 'debug' });
    await lineOf(pusher, /^bridge ready/);
    expect((await run('bridge', 'status')).output).toMatch(
      /^Note: the database was restored at .* from the backup of /,
    );
    expect(held()).toBe(atRestore);
    const submitted = (await suppliersAtService()).submissions.length;
    const puller = bridge.start(['bridge', '--role', 'pull'], { SOURCING__BRIDGE__CONSOLE_PORT: '0' });
    await useEmbedded(service.dataDir, async (serviceUrl) => {
      await useEmbedded(bridge.dataDir, async (bridgeUrl) => {
        const { awards } = await readServiceState(serviceUrl);
        expect(Object.keys(awards).length).toBeGreaterThan(4);
        const state = async () => ({ held: replayLedger(ledger).held, unfinished: await readUnfinished(bridgeUrl) });
        await expect.poll(state, { timeout: 60_000, interval: 50 }).toEqual({ held: awards, unfinished: [] });
      });
    });
    // What was sent before the kill is not sent again; what the lost bridge had taken and not sent is not forgotten.
    const intake = bridge.start(['bridge', '--role', 'intake'], { SOURCING__BRIDGE__CONSOLE_PORT: '0' });
    const wanted = { 'ERP-1': 'One', 'ERP-2': 'Two, renamed', 'ERP-3': 'Three, renamed', 'ERP-4': 'Four' };
    await expect
      .poll(async () => (await suppliersAtService()).suppliers, { timeout: 60_000, interval: 500 })
      .toEqual(wanted);
    const again = (await suppliersAtService()).submissions.slice(submitted);
    expect(again.filter((each) => JSON.stringify(each).match(/ERP-[12]/))).toEqual([]);
    await until(
      'the restore has ended',
      async () => (await restoreState()) === undefined,
      () => failureOf(pusher),
    );
    expect(replayLedger(ledger).doubled).toEqual([]);
    // Nothing changed since the kill. So each award is written once at most, and none was set back on the way.
    const since = readLedger(ledger).slice(atRestore);
    expect(new Set(since.map(({ key }) => key)).size).toBe(since.length);
    for (const program of [pusher, puller, intake]) expect((await program.terminate()).code).toBe(0);
  }, 120_000);
});

function failureOf(program: Program, other?: string): string | undefined {
  return other ?? (program.ended ? program.report() : undefined);
}
