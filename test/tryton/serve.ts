/**
 * `node test/tryton/serve.ts [POSTGRES_URL]`: runs a Tryton server in which a connector's author can try things out,
 * until it is interrupted. It uses SQLite, or the PostgreSQL server of the URL, whose user must be allowed to create
 * databases.
 */
import { once } from 'node:events';
import { installTryton } from './install-tryton.ts';
import { startTryton, trytonUsers } from './tryton-server.ts';

const tryton = await installTryton();
if ('missing' in tryton) {
  console.error(`Tryton cannot be installed: ${tryton.missing}`);
  process.exitCode = 1;
} else {
  const [postgres] = process.argv.slice(2);
  const server = await startTryton(
    tryton,
    postgres === undefined ? { kind: 'sqlite' } : { kind: 'postgresql', url: postgres, prefix: 'sourcing_serve_' },
  );
  const database = await server.newDatabase();
  console.log(`${server.description} at ${database.url}`);
  for (const { login, password } of Object.values(trytonUsers)) console.log(`  ${login} / ${password}`);
  await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  await server.stop();
}
