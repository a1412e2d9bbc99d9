/** The process that serves pages, seen from the benchmark. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { PageServerOrder, PageServerReport } from './page-server-process.ts';

export interface PageServer {
  readonly url: string;
  /** Makes these pages of a feed, instead of those before. */
  serve(order: PageServerOrder): Promise<void>;
  close(): Promise<void>;
}

export async function startPageServer(): Promise<PageServer> {
  const child = fork(new URL('page-server-process.ts', import.meta.url));
  const [{ port }] = (await once(child, 'message')) as [PageServerReport];
  return {
    url: `http://127.0.0.1:${port}`,
    serve: async (order) => {
      child.send(order);
      await once(child, 'message');
    },
    close: async () => {
      const gone = once(child, 'exit');
      child.kill();
      await gone;
    },
  };
}
