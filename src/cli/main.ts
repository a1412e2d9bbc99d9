/** `npx sourcing-bridge <command>`. Exit codes: 0 done, 1 failed or different, 2 wrong usage or settings. */
import { runProgram } from './program.ts';

// The reader of the output may end before this program (a closed terminal, a pipe into head). That must not break an
// orderly stop.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

await runProgram(process.argv.slice(2));
