/** What the pusher would do now: with one document ("would it go through now?"), or with all of a flow. */
import { z } from 'zod';
import { type OpenFlow, openFlows } from '#bridge/connectors/open-flows.ts';
import { countPlanned, planFlow } from '#bridge/operate/plan/plan-flow.ts';
import { AppError } from '#platform/errors.ts';
import { actionCall, type ConsoleApiDeps, documentKind, flowName, requireFlow } from './console-call.ts';

/** A connector that does not answer must not hold the page for ever. */
const planMs = 60_000;
const body = z.strictObject({
  flow: flowName,
  /** Only this document. */
  document: z.strictObject({ kind: documentKind, key: z.string().min(1).max(2_000) }).optional(),
  all: z.boolean().default(false),
  limit: z.int().min(1).max(200).default(50),
});

export type PlanAnswer = {
  changes: Awaited<ReturnType<typeof planFlow>>;
  documents: number;
};

/** Reads only, but it calls the ERP: for operators. */
export const planCall = (deps: ConsoleApiDeps) =>
  actionCall('/api/plan', body, async ({ viewer, body: { flow, document, all, limit } }): Promise<PlanAnswer> => {
    requireFlow(viewer, flow);
    return withOpenFlow(deps, flow, async (openFlow) => {
      const planned = { database: deps.database, openFlow, clock: deps.clock };
      const signal = AbortSignal.timeout(planMs);
      if (document) {
        const changes = await planFlow(planned, { limit: 1, signal, all: true, document });
        return { changes, documents: changes.length };
      }
      return {
        changes: await planFlow(planned, { limit, signal, all }),
        documents: await countPlanned(planned, { all }),
      };
    });
  });

async function withOpenFlow<T>(deps: ConsoleApiDeps, name: string, use: (flow: OpenFlow) => Promise<T>): Promise<T> {
  const { settings, dataDir, log, clock } = deps;
  const flows = settings.flows.filter((flow) => flow.name === name);
  await using opened = new AsyncDisposableStack();
  const [openFlow] = await openFlows({ settings: { ...settings, flows }, dataDir, log, clock }, opened);
  if (!openFlow) throw new AppError('not-found', `The flow "${name}" is not configured in this process.`);
  return await use(openFlow);
}
