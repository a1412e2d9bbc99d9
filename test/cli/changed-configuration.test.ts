/** A running bridge whose configuration changes: with real processes, each over its own database. */
import { rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readStatus } from '#bridge/operate/status/status.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { freePort } from '../harness/free-port.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { startCommandLine } from './command-line.ts';

const source = (name: string) => ({
  name,
  // Nothing listens there: what counts here is what the bridge works for.
  base_url: 'http://127.0.0.1:1',
  api_key: 'not-a-real-key',
  signing_keys: ['a-signing-key-of-forty-characters-at-least'],
  feeds: ['awards'],
});
const flow = (name: string, settings: object = { directory: name }) => ({
  name,
  source: 'main',
  connector: 'file',
  documents: ['award'],
  settings,
});

interface Written {
  sources?: object[];
  flows?: object[];
  port?: number;
  console_port?: number;
}

/** A bridge in one process; `write` writes its configuration, in YAML or as text. */
async function startBridge(written: Written) {
  const { url, database } = await createTestDatabase();
  const folder = await scratchFolder();
  const file = join(folder, 'bridge.yaml');
  const ports = { port: await freePort(), console_port: await freePort() };
  const write = (bridge: Written | string) =>
    writeFile(file, typeof bridge === 'string' ? bridge : JSON.stringify({ bridge: { ...ports, ...bridge } }));
  await write(written);
  const program = startCommandLine(['bridge', '--config', file, '--data', join(folder, 'data')], { DATABASE_URL: url });
  closeAtEnd(() => program.signal('SIGKILL'));
  await program.line(/^bridge ready/);
  const status = async () => {
    const settings = bridgeSettings.parse({});
    const { flows, conditions } = await readStatus(database, { settings, now: timestampNow(systemClock) });
    const processes = await database.query<{ name: string }>('select name from bridge.processes');
    return {
      flows: flows.map((each) => each.flow),
      refused: conditions.filter(({ kind }) => kind === 'configuration-refused').map(({ summary }) => summary),
      processes: processes.map(({ name }) => name),
    };
  };
  const starts = () => program.stdout().match(/^bridge ready/gm)?.length;
  return { program, file, write, status, starts };
}

const within = { timeout: 40_000, interval: 200 };

test('flows are added and removed in the running process, and what is refused is said and changes nothing', async () => {
  const bridge = await startBridge({ sources: [source('main')], flows: [flow('one')] });
  const { processes } = await bridge.status();
  expect(processes).toHaveLength(1);

  await bridge.write({ sources: [source('main'), source('second')], flows: [flow('one'), flow('two')] });
  await expect.poll(bridge.status, within).toEqual({ flows: ['one', 'two'], refused: [], processes });

  const broken: [Written | string, RegExp][] = [
    ['bridge: {sources: [', /bridge\.yaml/],
    [{ sources: [source('main')], flows: [flow('one', {})] }, /bridge\.flows\[0\]\.settings\.directory/],
    [{ sources: [source('other')], flows: [flow('one')] }, /names the source "main", which is not configured/],
  ];
  for (const [text, why] of broken) {
    await bridge.write(text);
    await expect
      .poll(bridge.status, within)
      .toEqual({ flows: ['one', 'two'], refused: [expect.stringMatching(why)], processes });
  }
  await rm(bridge.file);
  await expect
    .poll(bridge.status, within)
    .toEqual({ flows: ['one', 'two'], refused: [expect.stringContaining('bridge.yaml')], processes });

  await bridge.write({ sources: [source('main')], flows: [flow('two')] });
  await expect.poll(bridge.status, within).toEqual({ flows: ['two'], refused: [], processes });
  await expect.poll(bridge.starts, within).toBe(3);

  bridge.program.signal('SIGTERM');
  expect(await bridge.program.ended).toBe(0);
});

test('a configuration with which it does not start leaves it with the one before, until the file is corrected; SIGHUP ends nothing', async () => {
  const bridge = await startBridge({ sources: [source('main')], flows: [flow('one')] });
  const { processes } = await bridge.status();
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  closeAtEnd(() => void taken.close());
  const address = taken.address();
  const port = typeof address === 'object' && address ? address.port : 0;

  await bridge.write({ sources: [source('main')], flows: [flow('one'), flow('two')], console_port: port });
  await expect
    .poll(bridge.status, within)
    .toMatchObject({ refused: [expect.stringContaining(String(port))], processes });
  expect(bridge.starts()).toBe(2);

  await bridge.write({ sources: [source('main')], flows: [flow('one'), flow('three')] });
  await expect.poll(async () => (await bridge.status()).flows, within).toEqual(['one', 'three']);
  expect(await bridge.status()).toMatchObject({ refused: [], processes });
  await expect.poll(bridge.starts, within).toBe(3);

  await bridge.write({ sources: [source('main')], flows: [flow('four')] });
  bridge.program.signal('SIGHUP');
  await expect.poll(bridge.status, within).toEqual({ flows: ['four'], refused: [], processes });
  bridge.program.signal('SIGTERM');
  expect(await bridge.program.ended).toBe(0);
});
