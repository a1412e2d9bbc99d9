/** Who may read what the connector writes. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { sampleOf } from '#connector/testing/sample-documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import fileConnector from '../../../connectors/file/index.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';
import { operation } from './operations.ts';

const never = new AbortController().signal;

/** The rights of everything that a write of an award and of a file leaves in its folder, each once. */
async function modesAfterWrite(settings: Record<string, unknown>): Promise<{ files: string[]; folders: string[] }> {
  const dataDir = await scratchFolder();
  const parsed = fileConnector.settings.parse({ directory: 'a/inbox', ...settings });
  const session = await fileConnector.open(parsed, testContext({ dataDir }).context);
  for (const kind of ['award', 'file'] as const) {
    const sample = sampleOf(kind, 1);
    const file = kind === 'file' ? { file: { name: 'plan.pdf', read: async () => Buffer.from('x') } } : {};
    const outcomes = await session.write([operation('create', { ...sample, ...file }, sample.versions[0])], never);
    expect(outcomes.map(({ status }) => status)).toEqual(['created']);
  }
  await session.close();
  const modes = { files: new Set<string>(), folders: new Set<string>() };
  for (const entry of await readdir(dataDir, { recursive: true, withFileTypes: true })) {
    const { mode } = await stat(join(entry.parentPath, entry.name));
    (entry.isDirectory() ? modes.folders : modes.files).add((mode & 0o777).toString(8));
  }
  return { files: [...modes.files], folders: [...modes.folders] };
}

test.each([
  ['document', 0o077, { files: ['600'], folders: ['700'] }],
  ['batch', 0o077, { files: ['600'], folders: ['700'] }],
  ['document', 0o027, { files: ['640'], folders: ['750'] }],
  ['batch', 0o027, { files: ['640'], folders: ['750'] }],
])('whom the umask of the process allows (layout %s, umask %i)', async (layout, umask, modes) => {
  const before = process.umask(umask);
  try {
    expect(await modesAfterWrite({ layout })).toEqual(modes);
  } finally {
    process.umask(before);
  }
});

test('an existing folder keeps its rights', async () => {
  const dataDir = await scratchFolder();
  const before = (await stat(dataDir)).mode;
  const parsed = fileConnector.settings.parse({ directory: dataDir });
  await (await fileConnector.open(parsed, testContext({ dataDir }).context)).close();
  expect((await stat(dataDir)).mode).toBe(before);
});
