/**
 * Attacks on the webhook port by clients that have no key. Figures of the first version, with 1,024 open files: 1,100
 * silent connections left 985 in CLOSE-WAIT for good, and neither `/healthz` nor the console answered; 1,000 unfinished
 * bodies took the memory from 183 to 589 MB; 186 MB were accepted after a 413.
 */
import { describe, expect, test, vi } from 'vitest';
import { unverifiedBytesMax } from '#platform/http/unverified-bytes.ts';
import { until } from '../faults/program-process.ts';
import {
  type AttackedBridge,
  askConsole,
  connectSecurely,
  connectSilently,
  destroyAll,
  forgedHead,
  get,
  isFull,
  medianMs,
  notify,
  oneAddress,
  printFigure,
  type SecureConnection,
  startAttackedBridge,
  thousandAddresses,
} from './attacked-bridge.ts';

const megabyte = 1_000_000;

// All of an attack takes the time that the bridge gives its bodies, and more on a busy machine.
vi.setConfig({ testTimeout: isFull ? 240_000 : 120_000 });

/** For the attacks that need no figures and no settings of their own. */
const shared = await startAttackedBridge({ http: { client_seconds: isFull ? 15 : 1 } });

/** Fails unless health, console and a sender with the right key are served. */
async function expectServed(bridge: AttackedBridge): Promise<void> {
  const served = {
    health: (await get(bridge, '/healthz')).status,
    console: await askConsole(bridge, '/healthz'),
    notification: (await notify(bridge)).status,
  };
  expect(served).toEqual({ health: 200, console: 200, notification: 200 });
}

/** Fails if the answer to an honest sender takes more than three times as long as without the attack. Full form only. */
async function expectQuick(bridge: AttackedBridge, quietMs: number): Promise<void> {
  const ms = await medianMs(20, () => notify(bridge));
  printFigure('an honest notification', `${quietMs.toFixed(1)} ms before, ${ms.toFixed(1)} ms under the attack`);
  expect(ms).toBeLessThan(isFull ? 3 * quietMs : Number.POSITIVE_INFINITY);
}

describe('connections that never finish their TLS handshake', () => {
  test('leave the port, the console and honest senders alone, and are gone soon', async () => {
    const bridge = await startAttackedBridge(
      isFull ? { openFiles: 1_024 } : { openFiles: 256, http: { client_seconds: 2 } },
    );
    await expectServed(bridge);
    const quietMs = await medianMs(20, () => notify(bridge));
    const silent = await Promise.all(
      Array.from({ length: isFull ? 1_100 : 300 }, (_, index) =>
        connectSilently(bridge.port, thousandAddresses(index)),
      ),
    );
    await expectServed(bridge);
    // Half of a quarter of its open files, and the reserve, at most.
    expect(await bridge.sockets()).toBeLessThan(isFull ? 300 : 100);
    await expectQuick(bridge, quietMs);
    // The clients do nothing: it is the bridge that ends them.
    await until('every socket is gone', async () => (await bridge.sockets()) === 0);
    destroyAll(silent);
    await expectServed(bridge);
  });

  test('and end their side at once are gone soon, too', async () => {
    expect(await notify(shared)).toMatchObject({ status: 200 });
    for (let index = 0; index < 100; index += 1) {
      const socket = await connectSilently(shared.port, oneAddress(index));
      // The beginning of a TLS record, and then the end.
      socket.end(Buffer.from([0x16, 0x03, 0x01, 0x02]));
    }
    await until('every socket is gone', async () => (await shared.sockets()) === 0);
    await expectServed(shared);
  });
});

describe('bodies that are forged', () => {
  const length = 262_144;
  const bodies = isFull ? 1_000 : 150;
  // On a busy machine it takes seconds to send more than may be kept.
  const http = isFull ? {} : { client_seconds: 20 };

  /** Sends all of a body but its last byte, under a signature that has the right form. */
  async function sendForged(port: number, localAddress: string): Promise<SecureConnection[]> {
    const connection = await connectSecurely(port, localAddress);
    connection?.socket.write(forgedHead(length));
    connection?.socket.write(Buffer.alloc(length - 1, 'x'));
    return connection ? [connection] : [];
  }

  test.each([
    ['one address', oneAddress],
    ['a thousand addresses', thousandAddresses],
  ])('need bounded memory and time when they come from %s', async (from, addresses) => {
    const bridge = await startAttackedBridge({ http });
    await expectServed(bridge);
    const quietMs = await medianMs(20, () => notify(bridge));
    const before = await bridge.memory();
    const sent: SecureConnection[] = [];
    for (let index = 0; index < bodies; index += 1) sent.push(...(await sendForged(bridge.port, addresses(index))));
    await expectServed(bridge);
    const kept = () => sent.filter((each) => !each.socket.destroyed && each.received() === '').length;
    await until('no more bodies are kept than may be', () => kept() * (length - 1) <= unverifiedBytesMax);
    expect(sent.filter((each) => each.received().startsWith('HTTP/1.1 503 ')).length).toBeGreaterThan(0);
    const grown = (await bridge.memory()) - before;
    printFigure(`forged bodies from ${from}`, `memory grew by ${Math.round(grown / megabyte)} MB`);
    expect(grown).toBeLessThan((isFull ? 200 : 120) * megabyte);
    await expectQuick(bridge, quietMs);
    await until('every body is refused', () => kept() === 0);
    await until('every socket is gone', async () => (await bridge.sockets()) === 0);
    await expectServed(bridge);
  });

  test('and sent byte by byte are refused when their time is over', async () => {
    const slow = await connectSecurely(shared.port, '127.0.0.1');
    slow?.socket.write(forgedHead(length));
    // The pace of the attacker.
    const dripping = setInterval(() => void slow?.socket.write('x'), 20);
    await slow?.closed;
    clearInterval(dripping);
    expect(slow?.received()).toMatch(/^HTTP\/1\.1 408 /);
  });

  test.each([
    ['too long', forgedHead(1_000_000_000), 413],
    ['not signed at all', forgedHead(1_000_000_000).replace(/X-Signature: .*\r\n/, ''), 401],
  ])('and %s are not read on after their refusal', async (_what, head, status) => {
    const endless = await connectSecurely(shared.port, '127.0.0.1');
    endless?.socket.write(head);
    const part = Buffer.alloc(megabyte);
    const sendOn = () => {
      if (endless && !endless.socket.destroyed && endless.socket.bytesWritten < 400 * megabyte)
        endless.socket.write(part, sendOn);
    };
    sendOn();
    await endless?.closed;
    expect(endless?.received()).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    // What the bridge reads, and what the buffers of both systems hold.
    expect((endless?.socket.bytesWritten ?? 0) - (endless?.socket.writableLength ?? 0)).toBeLessThan(24 * megabyte);
  });
});

test('health is all that the webhook port tells, and the console answers to no foreign name', async () => {
  const bridge = shared;
  for (const headers of [[], ['X-Real-IP: 127.0.0.1'], ['Forwarded: for=127.0.0.1'], ['X-Forwarded-For: 127.0.0.1']])
    for (const [path, status] of [
      ['/healthz', 200],
      ['/metrics', 404],
      ['/readyz', 404],
    ] as const)
      expect([path, headers, (await get(bridge, path, headers)).status]).toEqual([path, headers, status]);
  expect(await askConsole(bridge, '/status.json')).toBe(200);
  expect(await askConsole(bridge, '/status.json', 'rebound.example')).toBe(403);
});

test('clients that pipeline requests and never read an answer are ended, and their memory is bounded', async () => {
  const bridge = await startAttackedBridge();
  await expectServed(bridge);
  const before = await bridge.memory();
  // As much as the bridge reads at once.
  const requests = Buffer.from('GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n'.repeat(1_800));
  let most = before;
  for (let round = 0; round < (isFull ? 10 : 2); round += 1) {
    const attackers: SecureConnection[] = [];
    for (let index = 0; index < 200; index += 1) {
      const attacker = await connectSecurely(bridge.port, thousandAddresses(index));
      attacker?.socket.pause();
      attacker?.socket.write(requests);
      if (attacker) attackers.push(attacker);
    }
    expect(attackers).toHaveLength(200);
    await until('every connection is ended', async () => {
      most = Math.max(most, await bridge.memory());
      return (await bridge.sockets()) === 0;
    });
    destroyAll(attackers.map(({ socket }) => socket));
  }
  printFigure('pipelined requests', `memory grew by ${Math.round((most - before) / megabyte)} MB`);
  expect(most - before).toBeLessThan(400 * megabyte);
  await expectServed(bridge);
});
