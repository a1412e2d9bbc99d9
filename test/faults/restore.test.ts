/**
 * The backup drill, with real processes: a backup is made while awards are delivered, the bridge goes on delivering, is
 * killed with -9 and loses its data folder; the backup is restored. The ERP makes a second object of every repeated call.
 * It starts a dozen programs, so it runs with `npm run test:restore` only.
 */
import { existsSync } from 'node:fs';
import { appendFile, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { readOpenRestore } from '#bridge/restore/open-restore.ts';
import { createDatabase } from '#platform/database/database.ts';
import { silentLogger } from '#platform/log.ts';
import { freePort } from '../harness/free-port.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { readServiceState, readUnfinished } from './awards-in-sql.ts';
import { createSource, ledgerConfiguration } from './ledger-bridge.ts';
import { readLedger, replayLedger } from './ledger-connector.ts';
import { openClient, startPlayers } from './players.ts';
import { createInstallation, type Installation, lineOf, type Program, until, useEmbedded } from './program-process.ts';

let service: Installation;
let bridge: Installation;
let ledger: string;
let backup: string;

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
      return await readOpenRestore(database);
    } finally {
      await database.close();
    }
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
    const configuration = ledgerConfiguration(source, {
      bridge: { port: await freePort() },
      source: { quotas: { enabled: false }, poll_seconds: 1 },
    }) as { bridge: { flows: { settings: object }[] } };
    // The ERP is not in the data folder, so it is not lost with it.
    for (const flow of configuration.bridge.flows) flow.settings = { file: ledger };
    bridge = await createInstallation({ configuration });

    const players = startPlayers({ client: await openClient(baseUrl, source.apiKey), seed: 22, pauseMs: 20 });
    const before = bridge.start(['bridge']);
    await until(
      'two awards are delivered',
      () => held() >= 2,
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
    await players.finish();
    await before.kill();
    // Its database outlives it by design: it is stopped before the disk is lost.
    await useEmbedded(bridge.dataDir, async () => undefined);
    await rm(bridge.dataDir, { recursive: true });
  }, 240_000);

  test('a backup that lacks a file, or holds another, is refused by the name of the file, and leaves nothing', async () => {
    const key = await readFile(join(backup, 'master-key'));
    await appendFile(join(backup, 'master-key'), ' ');
    expect(await run('restore', backup)).toEqual({
      code: 2,
      output: expect.stringMatching(/master-key is not what was backed up/),
    });
    await rm(join(backup, 'master-key'));
    expect(await run('restore', backup)).toEqual({ code: 2, output: expect.stringMatching(/master-key is missing/) });
    expect([existsSync(bridge.dataDir), await building()]).toEqual([false, []]);
    await writeFile(join(backup, 'master-key'), key);
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
    expect(await restoreState()).toMatchObject({ heldFlows: ['ledger'] });
  });

  test('nothing is written before the source was read again, and then nothing twice: the ERP is as if nothing was lost', async () => {
    const atRestore = held();
    // Without a puller the source is not read again: the flow is held, whatever is due.
    const pusher = bridge.start(['bridge', '--role', 'push'], { LOG_LEVEL: 'debug' });
    await lineOf(pusher, /^bridge ready/);
    expect((await run('bridge', 'status')).output).toMatch(/^Restored at .* from the backup of /);
    expect(held()).toBe(atRestore);
    const puller = bridge.start(['bridge', '--role', 'pull'], { SOURCING__BRIDGE__CONSOLE_PORT: '0' });
    await useEmbedded(service.dataDir, async (serviceUrl) => {
      await useEmbedded(bridge.dataDir, async (bridgeUrl) => {
        const { awards } = await readServiceState(serviceUrl);
        expect(Object.keys(awards).length).toBeGreaterThan(4);
        const state = async () => ({ held: replayLedger(ledger).held, unfinished: await readUnfinished(bridgeUrl) });
        await expect.poll(state, { timeout: 60_000, interval: 50 }).toEqual({ held: awards, unfinished: [] });
      });
    });
    await until(
      'the restore has ended',
      async () => (await restoreState()) === undefined,
      () => failureOf(pusher),
    );
    expect(replayLedger(ledger).doubled).toEqual([]);
    // Nothing changed since the kill. So each award is written once at most, and none was set back on the way.
    const since = readLedger(ledger).slice(atRestore);
    expect(new Set(since.map(({ key }) => key)).size).toBe(since.length);
    for (const program of [pusher, puller]) expect((await program.terminate()).code).toBe(0);
  }, 120_000);
});

function failureOf(program: Program, other?: string): string | undefined {
  return other ?? (program.ended ? program.report() : undefined);
}
