/**
 * Sets up Node before the program is loaded: limits that keep its memory small (docs/scaling.md, "Memory", says why), and
 * in the repository the cache of compiled modules. Plain JavaScript, as launch.js is.
 */
import { existsSync } from 'node:fs';
import module from 'node:module';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';

/** The most MB of each half of the young generation. Without it both take 128 MB, most of them garbage. */
const youngGeneration = '--max-semi-space-size=4';
/** How much the heap may grow before it is collected, in percent of what was alive. Without it that is up to 300. */
const growth = '--heap-growing-percent=50';
/** One thread collects a young generation of this size: to start helpers costs more than they save. */
const youngThreads = '--no-parallel-scavenge';
/**
 * WebAssembly stays as it was compiled at first. Here that is the HTTP parser of undici: to optimise its largest function
 * takes 23 MB for a moment, and parses no faster. Only both together switch it off.
 */
const wasm = ['--no-wasm-dynamic-tiering', '--no-wasm-tier-up'];

/**
 * The allocator of Linux (glibc) has one heap for all threads, not one for each that keeps what was freed in it, and
 * returns large blocks to the system. Another C library ignores this.
 */
const allocator = 'glibc.malloc.arena_max=1:glibc.malloc.trim_threshold=131072:glibc.malloc.mmap_threshold=65536';

/** A flag that the user has set wins. May start Node anew, in the same process: then it does not return. */
export function prepareNode() {
  const given = [...process.execArgv, process.env.NODE_OPTIONS ?? ''].join(' ').replaceAll('_', '-');
  const isGiven = (flag) => given.includes(flag.replace(/^--(no-)?|=.*$/g, ''));
  for (const flag of [growth, youngThreads, ...wasm]) if (!isGiven(flag)) setFlagsFromString(flag);
  // These are read only when a process starts. Windows cannot replace a process: there they stay as they are.
  if (!isGiven(youngGeneration) && process.execve && process.platform !== 'win32')
    process.execve(
      process.execPath,
      [process.execPath, youngGeneration, ...process.execArgv, ...process.argv.slice(1)],
      { GLIBC_TUNABLES: allocator, ...process.env },
    );
  // It has been read. Programs that are started from here, such as PostgreSQL, have their own.
  if (process.env.GLIBC_TUNABLES === allocator) delete process.env.GLIBC_TUNABLES;
  // TypeScript starts in half of the time with the cache, and does without its compiler. JavaScript would gain a tenth of a
  // second, and hold the cache, 6 to 10 MB, for as long as it runs. The cache is below this package, because whoever may
  // write there could change the program anyway; where nobody may write, Node goes on without it.
  if (existsSync(new URL('main.ts', import.meta.url)))
    module.enableCompileCache(
      fileURLToPath(new URL('../../node_modules/.cache/sourcing-bridge/compiled', import.meta.url)),
    );
}
