import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Returns a port that was free a moment ago. It is below the ports that the system assigns to outgoing connections
 * (from 32768 on): otherwise such a connection could take it while a server is killed and not yet started again.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries += 1) {
    const port = randomInt(20_000, 32_000);
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => resolve(true));
    });
    await new Promise((resolve) => server.close(resolve));
    if (isFree) return port;
  }
  throw new Error('There is no free port from 20000 to 32000.');
}
