/** What no program may load, as each of its processes would hold it for as long as it lives (docs/scaling.md, "Memory"). */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const doors = ['#bridge/create-bridge.ts', '#cli/installation.ts', '#cli/program.ts', '#service/create-service.ts'];

/** Loads `doors` and the bridge's parts, runs `statements`, and returns which of Node's own modules the process holds then. */
async function nodeModulesAfter(statements: string): Promise<string[]> {
  const program = `
    for (const door of ${JSON.stringify(doors)}) await import(door);
    await (await import('#bridge/part-modules.ts')).loadAllParts();
    const { createLogger } = await import('#platform/log.ts');
    ${statements}
    console.log(JSON.stringify(process.moduleLoadList));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: join(import.meta.dirname, '..', '..'),
    maxBuffer: 1_000_000,
  });
  return JSON.parse(stdout) as string[];
}

const undici = 'NativeModule internal/deps/undici/undici';

test("the programs and their logs do not load Node's own fetch, which takes 3 MB", async () => {
  const logs =
    "createLogger({ name: 'test', level: 'info' }).child({ part: 'pull' }).info({ source: { name: 'main' } }, 'text');";
  expect(await nodeModulesAfter(logs)).not.toContain(undici);
}, 60_000);

test('that would be seen', async () => {
  expect(await nodeModulesAfter('void globalThis.Headers;')).toContain(undici);
}, 60_000);
