/** The samples behind the charts of the overview. */
import { z } from 'zod';
import { readSamples, type SampleRange, sampleRanges } from '#bridge/operate/status/samples.ts';
import { timestampNow } from '#platform/clock.ts';
import { maySeeFlow } from '../access/viewer.ts';
import { type ConsoleApiDeps, readCall } from './console-call.ts';

const query = z.strictObject({
  range: z.enum(Object.keys(sampleRanges) as [SampleRange, ...SampleRange[]]).default('hour'),
});

export type ChartsAnswer = Awaited<ReturnType<typeof readSamples>>;

export const chartsCall = ({ database, clock }: ConsoleApiDeps) =>
  readCall('/api/charts', query, async ({ viewer, query: { range } }): Promise<ChartsAnswer> => {
    const samples = await readSamples(database, range, timestampNow(clock));
    return {
      ...samples,
      // They are of all sources together.
      feeds: viewer.flows === 'all' ? samples.feeds : [],
      flows: samples.flows.filter(({ flow }) => maySeeFlow(viewer, flow)),
    };
  });
