/** The measuring process, seen from the benchmark. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { LoadJob, LoadResult } from './load-process.ts';

export interface Load {
  /** Rejects unless every answer had the status 200. */
  run(job: LoadJob): Promise<LoadResult>;
  close(): Promise<void>;
}

export function startLoad(): Load {
  const child = fork(new URL('load-process.ts', import.meta.url), { serialization: 'advanced' });
  return {
    run: async (job) => {
      child.send(job);
      const [answer] = (await once(child, 'message')) as [{ result?: LoadResult; error?: string }];
      if (!answer.result) throw new Error(answer.error);
      const { statuses } = answer.result;
      if (statuses[200] !== job.requests.length)
        throw new Error(`Not all were answered 200: ${JSON.stringify(statuses)}`);
      return answer.result;
    },
    close: async () => {
      const gone = once(child, 'exit');
      child.kill();
      await gone;
    },
  };
}
