/** Writers that are killed with -9 at random moments, on the file system and over SFTP. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { Operation } from '#connector/connector.ts';
import { sampleOf } from '#connector/testing/sample-documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import { systemClock } from '#platform/clock.ts';
import connector from '../../../connectors/file/index.ts';
import { seededRandom } from '../../faults/seeded-random.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';
import { startSshd, whyNoSshd } from '../../harness/sshd.ts';
import { operation } from './operations.ts';

const never = new AbortController().signal;
const random = seededRandom(Number(process.env['PROPERTY_SEED'] ?? 1));
const missing = await whyNoSshd();
/** The number of kills per writer; FILE_KILLS=50 tries more. Over SFTP the server survives the writer. */
const { FILE_KILLS: killsWanted } = process.env;
const killsOf = { local: Number(killsWanted ?? 1), remote: Number(killsWanted ?? 1) };

/** A folder that the connector may write, and the settings for it. */
interface Place {
  readonly folder: string;
  readonly settings: Record<string, unknown>;
}

async function localPlace(): Promise<Place> {
  const folder = await scratchFolder();
  return { folder, settings: { directory: folder } };
}

async function remotePlace(): Promise<Place> {
  const { port, user, keyFile, passphrase, fingerprint, folder } = await startSshd();
  const sftp = { host: '127.0.0.1', port, user, private_key_file: keyFile, passphrase, fingerprint };
  return { folder, settings: { directory: folder, sftp } };
}

/** Sixteen writes; each has a create, and an amend of the document that the write before has created. */
function makeWork(): Operation[][] {
  const samples = Array.from({ length: 16 }, (_, n) => sampleOf('award', n));
  return samples.map((sample, n) => {
    const before = samples[n - 1];
    return [
      operation('create', sample, sample.versions[0]),
      ...(before ? [operation('amend', before, before.versions[1])] : []),
    ];
  });
}

/** Starts a writer and kills it during a write; returns how many writes were answered. */
async function writeAndKill(settings: unknown, batches: readonly Operation[][]): Promise<number> {
  const file = join(await scratchFolder(), 'work.json');
  await writeFile(file, JSON.stringify({ settings, batches }));
  const child = spawn(process.execPath, [fileURLToPath(new URL('./writer-process.ts', import.meta.url)), file]);
  const ended = once(child, 'close');
  closeAtEnd(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += String(chunk);
  });
  let errors = '';
  child.stderr.on('data', (chunk) => {
    errors += String(chunk);
  });
  const at = 1 + Math.floor(random.upTo(batches.length - 3));
  await expect.poll(() => output.includes(`begin ${at}\n`) || errors, { interval: 1, timeout: 30_000 }).toBe(true);
  await systemClock.sleep(random.upTo(15));
  child.kill('SIGKILL');
  await ended;
  return output.split('\n').filter((line) => line.startsWith('done')).length;
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

interface Written {
  readonly lines_file: string;
  readonly lines_sha256: string;
  readonly key: string;
  readonly content_hash: string;
  readonly files: readonly { readonly name: string; readonly sha256: string; readonly rows?: number }[];
  readonly documents: readonly { readonly id: string; readonly key: string; readonly content_hash: string }[];
}

const visible = async (folder: string) => (await readdir(folder)).filter((name) => !name.startsWith('.')).sort();
const parsed = async (folder: string, name: string) =>
  JSON.parse(await readFile(join(folder, name), 'utf8')) as Written;

/** The content hashes in the folder, by key; each file must be complete at any time. */
async function documentsIn(folder: string, isRecovered: boolean): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const name of await visible(folder)) {
    if (!name.endsWith('.json')) continue;
    const { key, content_hash, lines_file, lines_sha256 } = await parsed(folder, name);
    found.set(key, content_hash);
    const lines = sha256(await readFile(join(folder, lines_file)));
    // After a kill between the two renames they differ, until the next process has written both.
    expect(isRecovered ? lines : lines_sha256).toBe(lines_sha256);
  }
  return found;
}

/** The last content hashes of all batches, by key; each operation must occur once. */
async function batchesIn(folder: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  const ids: string[] = [];
  const named = new Set<string>();
  for (const name of await visible(folder)) {
    if (!name.endsWith('.manifest.json')) continue;
    named.add(name);
    const { files, documents } = await parsed(folder, name);
    for (const file of files) {
      named.add(file.name);
      expect(sha256(await readFile(join(folder, file.name)))).toBe(file.sha256);
    }
    for (const { id, key, content_hash } of documents) {
      ids.push(id);
      found.set(key, content_hash);
    }
  }
  expect(ids.length).toBe(new Set(ids).size);
  expect(await visible(folder)).toEqual([...named].sort());
  return found;
}

describe.each([
  ['on the file system', localPlace, killsOf.local, undefined],
  ['over SFTP', remotePlace, killsOf.remote, missing],
] as const)('a writer %s', (_where, place, kills, missing) => {
  test.skipIf(missing !== undefined).each(['document', 'batch'] as const)(
    `that is killed at any moment leaves no half file, and the next one ends with each document once (%s)${missing === undefined ? '' : `: ${missing}`}`,
    { timeout: 60_000 + kills * 15_000 },
    async (layout) => {
      const { folder, settings } = await place();
      for (let round = 0; round < kills; round += 1) {
        const own = join(folder, `${round}`);
        await mkdir(own);
        await chmod(own, 0o777);
        const all = { ...settings, directory: own, layout };
        const batches = makeWork();
        const answered = await writeAndKill(all, batches);
        if (layout === 'document') await documentsIn(own, false);
        const session = await connector.open(connector.settings.parse(all), testContext().context);
        for (const operations of batches.slice(answered)) {
          const found = await session.lookup(
            operations.map(({ document }) => document),
            never,
          );
          const open = operations.filter(
            ({ document, contentHash }) =>
              !found.some(
                (entry) => entry.key === document.key && 'contentHash' in entry && entry.contentHash === contentHash,
              ),
          );
          const outcomes = await session.write(open, never);
          expect(outcomes.every((outcome) => 'reference' in outcome)).toBe(true);
        }
        await session.close();
        const expected = new Map(batches.flat().map(({ document, contentHash }) => [document.key, contentHash]));
        expect(await (layout === 'document' ? documentsIn(own, true) : batchesIn(own))).toEqual(expected);
        expect(await waitingIn(own)).toEqual([]);
      }
    },
  );
});

/** Batches that are written and not yet under their names: after a recovery there is none. */
async function waitingIn(folder: string): Promise<string[]> {
  const ready = await readdir(join(folder, '.sourcing-bridge', 'ready')).catch(() => []);
  return ready.filter((name) => name.endsWith('.json'));
}
