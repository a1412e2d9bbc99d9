/** SAP's OData server with SAP's descriptions of its services, as a child process. It keeps its data in memory. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { SapStub } from './install-sap-stub.ts';

export interface MetadataServer {
  /** `http://127.0.0.1:4711`. */
  readonly url: string;
  stop(): Promise<void>;
}

/** Rejects with the server's output if it does not start. */
export async function startMetadataServer({ folder }: SapStub): Promise<MetadataServer> {
  const program = join(folder, 'node_modules/@sap/cds/bin/serve.js');
  const { PATH = '' } = process.env;
  const child = spawn(process.execPath, [program, '--in-memory', '--port', '0'], {
    cwd: folder,
    env: { PATH, HOME: folder, NODE_ENV: 'test', CDS_LOG_LEVELS_CDS: 'info' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(child, 'exit');
  let output = '';
  const url = await new Promise<string>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => {
        output = (output + chunk.toString('utf8')).slice(-10_000);
        const port = /listening on \{ url: 'http:\/\/[^:]+:(\d+)'/.exec(output)?.[1];
        if (port !== undefined) resolve(`http://localhost:${port}`);
      });
    void ended.then(() => reject(new Error(`SAP's OData server does not start:\n${output}`)));
  });
  return {
    url,
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}
