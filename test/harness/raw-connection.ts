/** A TCP connection that sends exactly the test's bytes, and keeps all bytes that come back. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

export interface RawConnection {
  readonly socket: Socket;
  send(text: string | Uint8Array): void;
  /** Everything received so far. */
  received(): string;
  /** Resolves to everything received once the text has come; rejects when the connection ends without it. */
  until(text: string): Promise<string>;
  /** Resolves when the connection is closed, to the error's code if it was reset. */
  closed(): Promise<string | undefined>;
}

/** Connects; the connection is destroyed with the test. */
export async function connectRaw(port: number): Promise<RawConnection> {
  const socket = connect(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  let received = '';
  let failure: string | undefined;
  const changed = new EventTarget();
  const notify = () => changed.dispatchEvent(new Event('change'));
  const closed = new Promise<string | undefined>((resolve) => {
    socket.on('close', () => {
      resolve(failure);
      notify();
    });
  });
  socket.setEncoding('utf8');
  socket.on('error', (error: NodeJS.ErrnoException) => {
    failure = error.code ?? error.message;
  });
  socket.on('data', (text) => {
    received += String(text);
    notify();
  });
  await once(socket, 'connect');
  return {
    socket,
    send: (text) => void socket.write(text),
    received: () => received,
    closed: () => closed,
    until: async (text) => {
      while (!received.includes(text)) {
        if (socket.closed) throw new Error(`closed (${failure ?? 'no error'}) after: ${received}`);
        await once(changed, 'change');
      }
      return received;
    },
  };
}
