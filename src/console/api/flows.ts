/** Flows: their state, pause and resume, and a mapping tried on real documents before it is put in force. */
import { parse, stringify } from 'yaml';
import { z } from 'zod';
import { mappingSettings } from '#bridge/documents/mapping-settings.ts';
import { pauseFlow, resumeFlow } from '#bridge/ledger/flows/control-flows.ts';
import { documentDifferences } from '#bridge/operate/plan/document-differences.ts';
import { tryMapping } from '#bridge/operate/plan/try-mapping.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { parseInput } from '#platform/input.ts';
import { maySeeFlow, type Viewer } from '../access/viewer.ts';
import { actionCall, type ConsoleApiDeps, flowName, noQuery, readCall, requireFlow } from './console-call.ts';
import { statusFor } from './read-overview.ts';

export type FlowsAnswer = Awaited<ReturnType<typeof readFlows>>;
export type MappingTrial = Awaited<ReturnType<typeof tryNewMapping>>;

async function readFlows(deps: ConsoleApiDeps, viewer: Viewer) {
  const { flows, conditions } = await statusFor(deps, viewer);
  return {
    flows,
    conditions,
    settings: deps.settings.flows
      .filter(({ name }) => maySeeFlow(viewer, name))
      .map(({ name, connector, documents, mapping }) => ({
        name,
        connector,
        documents,
        /** As YAML; empty where nothing is mapped. */
        mapping: Object.keys(mapping).length === 0 ? '' : stringify(mapping),
      })),
  };
}

/** What the flow makes now, beside what it would make with another mapping. Writes nothing. */
async function tryNewMapping({ database, settings }: ConsoleApiDeps, name: string, text: string, limit: number) {
  const flow = settings.flows.find((each) => each.name === name);
  if (!flow) throw new AppError('not-found', `The flow "${name}" is not configured in this process.`);
  const mapping = parseInput(mappingSettings, parseYaml(text), 'The mapping');
  const before = await tryMapping(database, flow, { limit });
  const after = await tryMapping(database, { ...flow, mapping }, { limit });
  const known = new Map(before.map((tried) => [`${tried.kind} ${tried.key}`, tried]));
  return {
    documents: after.map((tried) => {
      const earlier = known.get(`${tried.kind} ${tried.key}`);
      return {
        kind: tried.kind,
        key: tried.key,
        event: eventNameOf(tried.document),
        supplier: supplierNameOf(tried.document),
        result: tried.result,
        reason: tried.reason ?? null,
        wasResult: earlier?.result ?? null,
        /** What the mapping makes of it: of the document, and of each of its lines. */
        mapped: mappedOf(tried.document),
        differences: documentDifferences(earlier?.document ?? {}, tried.document ?? {}),
      };
    }),
  };
}

/** `{name: 'Order', value: 'RFQ-4711'}`; of a line with its lot before the name. */
function mappedOf(document: object | undefined): { name: string; value: string }[] {
  const { fields = {}, lines = [] } = (document ?? {}) as {
    fields?: Record<string, string>;
    lines?: readonly { lot?: string; fields?: Record<string, string> }[];
  };
  return [
    ...Object.entries(fields).map(([name, value]) => ({ name, value })),
    ...lines.flatMap((line) =>
      Object.entries(line.fields ?? {}).map(([name, value]) => ({ name: `${line.lot ?? 'line'}: ${name}`, value })),
    ),
  ];
}

function parseYaml(text: string): unknown {
  try {
    return parse(text) ?? {};
  } catch (cause) {
    throw new AppError('invalid', `The mapping is not valid YAML: ${(cause as Error).message.split('\n', 1)[0]}`, {
      cause,
    });
  }
}

function eventNameOf(document: object | undefined): string | null {
  return document && 'event' in document ? (document.event as { name: string }).name : null;
}

function supplierNameOf(document: object | undefined): string | null {
  if (document && 'supplier' in document && document.supplier) return (document.supplier as { name: string }).name;
  return document && 'kind' in document && document.kind === 'supplier'
    ? ((document as { name?: string }).name ?? null)
    : null;
}

export const flowsCall = (deps: ConsoleApiDeps) =>
  readCall('/api/flows', noQuery, ({ viewer }) => readFlows(deps, viewer));

export const tryMappingCall = (deps: ConsoleApiDeps) =>
  actionCall(
    '/api/flows/try-mapping',
    z.strictObject({ flow: flowName, mapping: z.string().max(50_000), limit: z.int().min(1).max(50).default(10) }),
    ({ viewer, body: { flow, mapping, limit } }) => tryNewMapping(deps, requireFlow(viewer, flow), mapping, limit),
  );

export const pauseCall = ({ database, clock, note }: ConsoleApiDeps) =>
  actionCall(
    '/api/flows/pause',
    z.strictObject({ flow: flowName, reason: z.string().trim().min(1).max(500) }),
    async ({ viewer, body: { flow, reason } }) => {
      requireFlow(viewer, flow);
      await note(viewer, { what: 'flow.pause', object: `flow ${flow}`, details: { reason } });
      await pauseFlow(database, flow, `${reason} (${viewer.name})`, timestampNow(clock));
    },
  );

export const resumeCall = ({ database, clock, note }: ConsoleApiDeps) =>
  actionCall(
    '/api/flows/resume',
    z.strictObject({ flow: flowName, agreeToWithdrawals: z.boolean().default(false) }),
    async ({ viewer, body: { flow, agreeToWithdrawals } }) => {
      requireFlow(viewer, flow);
      await note(viewer, { what: 'flow.resume', object: `flow ${flow}`, details: { agreeToWithdrawals } });
      await resumeFlow(database, flow, { agreeToWithdrawals }, timestampNow(clock));
    },
  );
