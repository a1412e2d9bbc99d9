/** Shadow flows: what they would do, and how that differs from the live flow. */
import { z } from 'zod';
import { countShadowDocuments, readShadowDocuments, shadowActions } from '#bridge/shadow/shadow-store.ts';
import { AppError } from '#platform/errors.ts';
import type { Viewer } from '../access/viewer.ts';
import { type ConsoleApiDeps, flowName, pageRows, readCall, requireFlow } from './console-call.ts';
import { statusFor } from './read-overview.ts';

export type ShadowAnswer = Awaited<ReturnType<typeof readShadow>>;

const query = z.strictObject({
  flow: flowName,
  action: z.enum(shadowActions).optional(),
  all: z.stringbool().default(false),
});

async function readShadow(deps: ConsoleApiDeps, viewer: Viewer, { flow, action, all }: z.output<typeof query>) {
  requireFlow(viewer, flow);
  const { shadows } = await statusFor(deps, viewer);
  const status = shadows.find((shadow) => shadow.flow === flow);
  if (!status) throw new AppError('not-found', `"${flow}" is no shadow flow.`);
  const filter = { ...(action && { actions: [action] }), notable: !all && action === undefined };
  return {
    status,
    documents: await readShadowDocuments(deps.database, flow, { ...filter, limit: pageRows }),
    matching: await countShadowDocuments(deps.database, flow, filter),
  };
}

export const shadowCall = (deps: ConsoleApiDeps) =>
  readCall('/api/shadow', query, ({ viewer, query: read }) => readShadow(deps, viewer, read));
