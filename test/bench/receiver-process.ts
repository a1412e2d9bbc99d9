/**
 * A receiver of notifications over HTTPS on a number of ports: reads each body to its end, answers 204 and counts. A
 * process of its own: what it costs does not run on the measured sender's event loop.
 */
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';

export type ReceiverOrder = { listen: { ports: number; certPem: string; keyPem: string } } | 'count';
export type ReceiverReport = { listening: number[] } | { received: number };

let received = 0;

function report(message: ReceiverReport): void {
  process.send?.(message);
}

async function open({ certPem, keyPem }: { certPem: string; keyPem: string }): Promise<number> {
  const server = createServer({ cert: certPem, key: keyPem, keepAliveTimeout: 60_000 }, (request, response) => {
    request.resume().once('end', () => {
      response.writeHead(204).end();
      received += 1;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

process.on('message', (order: ReceiverOrder) => {
  if (order === 'count') return report({ received });
  const { ports, ...tls } = order.listen;
  void Promise.all(Array.from({ length: ports }, () => open(tls))).then((listening) => report({ listening }));
});
