/**
 * A person is erased from a real installation that goes on working: service and bridge on the embedded database, a flow
 * into files. The command is killed with -9 and run again. Afterwards the address is in no table, in no line that is logged
 * from then on, and in no file of a backup. The ERP follows its source, which shows the records without the person.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createDatabase } from '#platform/database/database.ts';
import { silentLogger } from '#platform/log.ts';
import { createPerson } from '#platform/person-data/person.ts';
import { allText } from '../harness/all-text.ts';
import { freePort } from '../harness/free-port.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { changeSuppliers, createEvent, desk, eventPayload } from '../harness/sourcing.ts';
import { createOrganisation, type TestOrganisation } from '../harness/test-organisation.ts';
import { createInstallation, type Installation, lineOf, outcomeOf, until, useEmbedded } from './program-process.ts';

const address = 'Ann.Ash@example.com';
const person = createPerson(address, '0123456789ab');
const ann = { name: 'Ann Ash', email: address };

/** The files below a folder that hold the address: as it is, in any letters, or as UTF-16. */
async function filesNaming(folder: string, leftOut: RegExp = /^$/): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (!entry.isFile() || leftOut.test(path)) continue;
    const text = (await readFile(path)).toString('latin1').toLowerCase();
    if (
      [address.toLowerCase(), Buffer.from(address.toLowerCase(), 'utf16le').toString('latin1')].some((each) =>
        text.includes(each),
      )
    )
      found.push(path);
  }
  return found;
}

async function linesNaming(installation: Installation): Promise<string[]> {
  return useEmbedded(installation.dataDir, async (url) => {
    const database = createDatabase({ url, log: silentLogger, applicationName: 'test', poolMax: 1 });
    try {
      const schemas = await database.query<{ name: string }>(
        `select nspname as name from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'`,
      );
      const lines: string[] = [];
      for (const { name } of schemas) lines.push(...(await allText(database, name)));
      const statistics = await database.query<{ line: string }>('select s::text as line from pg_stats s');
      return [...lines, ...statistics.map(({ line }) => line)].filter((line) => person.isIn(line));
    } finally {
      await database.close();
    }
  });
}

async function playStory(organisation: TestOrganisation): Promise<void> {
  await changeSuppliers(
    organisation,
    ...Array.from({ length: 30 }, (_, n) => ({ external_id: `S${n}`, name: `Supplier ${n}`, contacts: [ann] })),
  );
  const id = await createEvent(organisation, {
    ...eventPayload({ suppliers: ['S1', 'S2'] }),
    description: `Ask ${address.toUpperCase()}.`,
    event_contact: ann,
    tags: [{ name: 'Owner', value: address }],
  });
  await desk(organisation, 'POST', `${id}/publish`);
  await desk(organisation, 'POST', `${id}/bids`, { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '3' } }] });
  await desk(organisation, 'PUT', `${id}/scenarios/best`, {
    awards: [{ lot: 'A', supplier: 'S1', share_awarded: '1' }],
  });
  await desk(organisation, 'POST', `${id}/award`, { scenario: 'best' });
  await desk(organisation, 'POST', `${id}/close`);
}

test('an erased person is in no table, no log and no backup, and the ERP has what the source shows without her', {
  timeout: 240_000,
}, async () => {
  const [port, erp, dataDir] = [await freePort(), await scratchFolder(), join(await scratchFolder(), 'data')];
  const first = await createInstallation({ dataDir });
  const service = first.start(['service', '--port', String(port)]);
  const baseUrl = /http\S+/.exec(await lineOf(service, /ready/))?.[0] ?? '';
  const operator = (await readFile(join(dataDir, 'admin-token'), 'utf8')).trim();
  const organisation = await createOrganisation(baseUrl, operator);
  await playStory(organisation);
  const configuration = {
    sweep_seconds: 1,
    bridge: {
      port: await freePort(),
      console_port: 0,
      sources: [
        {
          name: 'main',
          base_url: baseUrl,
          api_key: organisation.key,
          poll_seconds: 1,
          suppliers: true,
          suppliers_poll_seconds: 10,
          quotas: { enabled: false },
        },
      ],
      flows: [
        {
          name: 'files',
          source: 'main',
          connector: 'file',
          documents: ['supplier', 'sourcing-event', 'award'],
          settings: { directory: erp },
        },
      ],
    },
  };
  const installation = await createInstallation({ dataDir, configuration });
  const bridge = installation.start(['bridge'], { LOG_LEVEL: 'debug' });
  const expected = 30 + 1 + 1;
  // Without the files that are being written.
  const namedInErp = () => filesNaming(erp, /\.tmp$/);
  const documents = async () => (await readdir(erp)).filter((name) => name.endsWith('.json')).length;
  await until(
    'all is delivered',
    async () => (await documents()) >= expected,
    () => (bridge.ended ? bridge.report() : undefined),
  );
  expect(await namedInErp()).toHaveLength(expected);
  expect((await linesNaming(installation)).length).toBeGreaterThan(60);

  const killed = installation.start(['erase', 'person', address, '--yes']);
  await until(
    'it has begun',
    () => killed.errors.some((line) => /tables of the \w+ searched [1-9]/.test(line)) || killed.ended,
  );
  await killed.kill();
  const again = installation.start(['erase', 'person', address.toLowerCase(), '--yes', '--json']);
  await again.end;
  expect(outcomeOf(again)).toBe('exit code 0');
  const report = JSON.parse(again.lines.join('\n')) as { deliveries: { kind: string }[]; toRewrite: string[] };
  expect(report.toRewrite).toEqual([]);
  expect(report.deliveries).toHaveLength(expected);

  const logged = () => [...service.errors, ...bridge.errors];
  const namingBefore = logged().filter((line) => person.isIn(line)).length;
  await until('the ERP has what the source shows now', async () => (await namedInErp()).length === 0);
  expect(await documents()).toBe(expected);
  expect(logged().filter((line) => person.isIn(line))).toHaveLength(namingBefore);
  // A source that shows the person again brings her back, until she is erased once more.
  await changeSuppliers(organisation, { external_id: 'S1', name: 'Supplier 1', contacts: [ann] });
  await until('the supplier is delivered with the person', async () => (await namedInErp()).length > 0);
  const last = installation.start(['erase', 'person', address, '--yes']);
  await last.end;
  expect(outcomeOf(last)).toBe('exit code 0');
  await until('the ERP has it without the person', async () => (await namedInErp()).length === 0);

  expect(await linesNaming(installation)).toEqual([]);
  const backup = join(await scratchFolder(), 'backup');
  const made = installation.start(['backup', backup]);
  await made.end;
  expect(outcomeOf(made)).toBe('exit code 0');
  expect(await filesNaming(backup)).toEqual([]);
  // The database server overwrites its log when it uses it again.
  expect(await filesNaming(dataDir, /\/pg_wal\//)).toEqual([]);
});
