/**
 * The tools of an assistant, as one table. Each is made of calls of the console's API, so that an assistant sees and does
 * what the person could see and do there, and nothing else. What an answer leaves out, its `more` says.
 */
import { z } from 'zod';
import type { IntakeStatus } from '#bridge/operate/status/intake-status.ts';
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import { AppError } from '#platform/errors.ts';
import { documentKind, flowName } from '../api/console-call.ts';
import type { DeadLettersAnswer } from '../api/dead-letters.ts';
import type { IntakeAnswer, IntakesAnswer } from '../api/intakes.ts';
import type { DocumentsAnswer } from '../api/list-documents-call.ts';
import type { PlanAnswer } from '../api/plan-documents.ts';
import type { DocumentAnswer } from '../api/read-document.ts';
import type { OverviewAnswer } from '../api/read-overview.ts';
import type { SearchAnswer } from '../api/search-documents.ts';

/** Calls the console's API at this path, as the person on whose behalf the assistant asks. */
export type CallConsole = <Body>(path: string, input?: object) => Promise<Body>;

export interface AssistantTool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input: z.ZodObject;
  /** What the audit log calls it, of a flow and of an intake; undefined for a tool that only reads. */
  readonly changes?: { readonly flow: string; readonly intake: string };
  readonly run: (input: never, call: CallConsole, settings: BridgeSettings) => Promise<unknown>;
}

const flow = flowName.describe('The name of a flow or of an intake');
const key = z.string().min(1).max(2_000);
const place = {
  flow: flowName.describe('The flow, as find tells it'),
  kind: documentKind.describe('The kind of document, as find tells it'),
  key: key.describe('The key of the document, as find tells it'),
};
const rows = (max: number, usual: number) =>
  z.int().min(1).max(max).default(usual).describe(`How many are shown at most: 1 to ${max}`);

export const assistantTools: readonly AssistantTool[] = [
  tool({
    name: 'find',
    title: 'Find documents',
    description:
      "Where documents are, and why: by words of an event's or a supplier's name, a reference, or any id. Each word must fit.",
    input: z.strictObject({ text: z.string().trim().min(1).max(500), limit: rows(50, 10) }),
    run: async ({ text, limit }, call) => {
      const { hasMore, ...found } = await call<SearchAnswer>('/api/search', { q: text, limit });
      return { ...found, more: hasMore ? 'There are more: raise the limit, or add words.' : null };
    },
  }),
  tool({
    name: 'history',
    title: 'History of a document',
    description: "One document's way, from the change at the service to the ERP's answer, the latest step first.",
    input: z.strictObject({ ...place, before: z.uuid().optional().describe('What `more` of the page before names') }),
    run: async (input, call) => {
      const { document, timeline } = await call<DocumentAnswer>('/api/document', input);
      const { entries, before } = timeline;
      return { document, entries, more: before === null ? null : `There are earlier attempts: before ${before}` };
    },
  }),
  tool({
    name: 'show',
    title: 'Show a document',
    description:
      'One document as it should be in the ERP now, and the versions that were sent; or one of these versions.',
    input: z.strictObject({ ...place, version: z.int().min(1).optional().describe('The number of a sent version') }),
    run: async ({ version, ...document }, call) => {
      if (version !== undefined) return call('/api/document/version', { ...document, version });
      const { document: state, now, versions } = await call<DocumentAnswer>('/api/document', document);
      return { document: state, now, versions };
    },
  }),
  tool({
    name: 'status',
    title: 'Status',
    description:
      'What every feed, flow and intake is doing, what was delivered and refused last, and whether all is well.',
    input: z.strictObject({}),
    run: async (_input, call) => {
      const { story: _story, ...overview } = await call<OverviewAnswer>('/api/overview');
      return overview;
    },
  }),
  tool({
    name: 'lag',
    title: 'Lag',
    description: 'How far behind every feed, flow and intake is, in seconds, and why.',
    input: z.strictObject({}),
    run: async (_input, call) => {
      const { status } = await call<OverviewAnswer>('/api/overview');
      return {
        feeds: status.feeds.map(({ source, feed, lag }) => ({ source, feed, ...lag })),
        flows: status.flows.map(({ flow: name, lag }) => ({ flow: name, ...lag })),
        intakes: status.intakes.map(({ intake, lag }) => ({ intake, ...lag })),
      };
    },
  }),
  tool({
    name: 'doctor',
    title: 'Doctor',
    description: 'Examines everything that could be wrong, and says what to do. It takes up to a minute.',
    input: z.strictObject({}),
    run: (_input, call) => call('/api/doctor'),
  }),
  tool({
    name: 'plan',
    title: 'Plan',
    description:
      'What would be written to the ERP now by a flow, or to the service by an intake. Writes nothing, but asks the ERP: ' +
      'for operators only.',
    input: z.strictObject({
      flow,
      all: z.boolean().default(false).describe('Of a flow: also documents that are not due'),
      limit: rows(100, 20),
    }),
    run: async ({ flow: name, all, limit }, call, settings) => {
      if (namesIntake(settings, name)) {
        const planned = await call<{ changes: unknown[] }>('/api/intakes/plan', { intake: name, limit });
        return { ...planned, more: planned.changes.length < limit ? null : 'There may be more: raise the limit.' };
      }
      const { changes, documents } = await call<PlanAnswer>('/api/plan', { flow: name, all, limit });
      return { changes, documents, more: changes.length < documents ? `${documents} documents in all` : null };
    },
  }),
  tool({
    name: 'dead_letters',
    title: 'Dead letters',
    description:
      'The documents that an ERP refused, in groups by what it said and the latest ones by name, and the suppliers of ' +
      'intakes that the service refused.',
    input: z.strictObject({
      flow: flow.optional(),
      limit: rows(100, 20),
      after: z.string().max(4_000).optional().describe('What `more` of the page before names'),
    }),
    run: readDeadLetters,
  }),
  tool({
    name: 'replay',
    title: 'Replay',
    description:
      'Lets one document be written to the ERP again (kind and key), or all dead letters of a flow (expected). Of an ' +
      'intake: one dead letter (key), or all.',
    input: z.strictObject({
      flow,
      kind: documentKind.optional(),
      key: key.optional().describe('The key of the document; of an intake: the number in the ERP'),
      expected: z.int().min(1).optional().describe('How many dead letters the flow has, as dead_letters tells it'),
    }),
    changes: { flow: 'documents.replay', intake: 'intake.replay' },
    run: replay,
  }),
  tool({
    name: 'pause',
    title: 'Pause',
    description: 'Lets a flow or an intake send nothing until it is resumed. Calls that have begun are finished.',
    input: z.strictObject({ flow, reason: z.string().trim().min(1).max(500).describe('Shown wherever the flow is') }),
    changes: { flow: 'flow.pause', intake: 'intake.pause' },
    run: async ({ flow: name, reason }, call, settings) => {
      if (namesIntake(settings, name)) await call('/api/intakes/pause', { intake: name, reason });
      else await call('/api/flows/pause', { flow: name, reason });
      return { paused: name, reason };
    },
  }),
  tool({
    name: 'resume',
    title: 'Resume',
    description:
      'Lets a paused flow or intake send again. It does not agree to the many withdrawals or archives for which the ' +
      'bridge may have paused it: a person does, in the console or on the command line.',
    input: z.strictObject({ flow }),
    changes: { flow: 'flow.resume', intake: 'intake.resume' },
    run: async ({ flow: name }, call, settings) => {
      if (namesIntake(settings, name)) await call('/api/intakes/resume', { intake: name });
      else await call('/api/flows/resume', { flow: name });
      return { resumed: name };
    },
  }),
];

/** Whether the name is that of an intake; else it is a flow's. */
export function namesIntake({ intakes }: Pick<BridgeSettings, 'intakes'>, name: string): boolean {
  return intakes.some((intake) => intake.name === name);
}

/** Types `run` by the schema beside it. */
function tool<Input extends z.ZodObject>(
  definition: Omit<AssistantTool, 'input' | 'run'> & {
    input: Input;
    run: (input: z.output<Input>, call: CallConsole, settings: BridgeSettings) => Promise<unknown>;
  },
): AssistantTool {
  return definition;
}

async function readDeadLetters(
  asked: { flow?: string | undefined; limit: number; after?: string | undefined },
  call: CallConsole,
  settings: BridgeSettings,
): Promise<unknown> {
  const { flow: name, limit, after } = asked;
  if (name !== undefined && namesIntake(settings, name)) return { intakes: [await readIntake(call, name, limit)] };
  const ofFlow = name === undefined ? {} : { flow: name };
  const { groups } = await call<DeadLettersAnswer>('/api/dead-letters', ofFlow);
  const listed = { ...ofFlow, state: 'dead letter', limit, ...(after === undefined ? {} : { after }) };
  const { documents, next } = await call<DocumentsAnswer>('/api/documents', listed);
  const intakes: unknown[] = [];
  // Those of intakes stand on the first page, as on the command line.
  if (name === undefined && after === undefined) {
    const all = await call<IntakesAnswer>('/api/intakes');
    const some = all.intakes.filter(({ deadLetters }: Pick<IntakeStatus, 'deadLetters'>) => deadLetters > 0);
    for (const { intake } of some) intakes.push(await readIntake(call, intake, limit));
  }
  return { groups, documents, intakes, more: next === null ? null : `There are more: after ${next}` };
}

async function readIntake(call: CallConsole, name: string, limit: number) {
  const { intake, deadLetters } = await call<IntakeAnswer>('/api/intake', { intake: name });
  const more = intake.deadLetters > limit ? `${intake.deadLetters} in all: raise the limit` : null;
  return { intake: name, deadLetters: deadLetters.slice(0, limit), more };
}

function replay(
  {
    flow: name,
    kind,
    key: document,
    expected,
  }: { flow: string; kind?: string | undefined; key?: string | undefined; expected?: number | undefined },
  call: CallConsole,
  settings: BridgeSettings,
): Promise<unknown> {
  if (namesIntake(settings, name))
    return call('/api/intakes/replay', { intake: name, ...(document === undefined ? {} : { erpKey: document }) });
  if (kind !== undefined && document !== undefined && expected === undefined)
    return call('/api/document/replay', { flow: name, kind, key: document });
  if (kind === undefined && document === undefined && expected !== undefined)
    return call('/api/dead-letters/replay', { flows: [name], expected, title: `Dead letters of ${name}` });
  throw new AppError(
    'invalid',
    'Say what to replay: kind and key of one document, or expected, the number of dead letters of the flow.',
  );
}
