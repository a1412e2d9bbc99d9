/** `bridge plan`: what would be written to each ERP now; changes nothing. */
import type { Travel } from '#bridge/assemble/time-travel.ts';
import { registeredFlows } from '#bridge/flows/flow-state.ts';
import { openFlows } from '#bridge/flows/open-flows.ts';
import { countPlanned, planFlow } from '#bridge/push/plan/plan-flow.ts';
import { planTravelled } from '#bridge/push/plan/plan-travelled.ts';
import type { FlowSettings } from '#bridge/settings.ts';
import {
  countShadowDocuments,
  readShadowDocuments,
  readShadowStatuses,
  type ShadowDocument,
  type ShadowStatus,
} from '#bridge/shadow/shadow-store.ts';
import { AppError } from '#platform/errors.ts';
import {
  type BridgeCommand,
  type BridgeCommandOptions,
  findFlow,
  requireSource,
  withBridge,
} from '../bridge-command.ts';
import { type SubjectOptions, subjectIds } from '../named-subjects.ts';
import { oneLine, print, shortTime, tableOf } from '../output.ts';
import { shadowCountsText, shadowTable } from '../shadow-words.ts';
import { type TravelTimes, travelled, travelOf, travelText } from '../time-travel.ts';

export interface PlanOptions extends BridgeCommandOptions, SubjectOptions, TravelTimes {
  limit: number;
  skip: number;
  all?: boolean;
}

type Changes = Awaited<ReturnType<typeof planFlow>>;

interface FlowPlan {
  flow: string;
  /** Of a shadow: what it would do, and how that differs from the live flow. */
  shadow?: { status: ShadowStatus | undefined; documents: ShadowDocument[] };
  changes: Changes;
  /** How many documents are due, or with `--all` exist; `changes` holds those of one page. */
  documents: number;
  /** False: no process has begun with this flow yet, so none of its documents is due. */
  registered: boolean;
}

const writes = new Set<Changes[number]['action']>(['create', 'amend', 'cancel', 'reject']);

/**
 * Plans one flow, or all. Exit code 1 when there is something to write, something that would be refused, or a flow that
 * is not registered: what it would write is not known. For a shadow: when it differs from the live flow.
 */
export function runPlan(options: PlanOptions, name: string | undefined): Promise<number> {
  const travel = travelOf(options);
  if (travel) return runPlanOfThen(options, name, travel);
  return withBridge(options, async (command) => {
    const { settings, database, clock, installation, signal } = command;
    requireSource(settings);
    const flows = name === undefined ? settings.flows : [findFlow(settings, name)];
    await using opened = new AsyncDisposableStack();
    const plans: FlowPlan[] = [];
    const registered = await registeredFlows(database);
    for (const flow of flows) {
      if (flow.shadow) {
        plans.push(await shadowPlan(command, flow, options));
        continue;
      }
      const deps = {
        settings: { ...settings, flows: [flow] },
        dataDir: installation.dataDir,
        log: installation.log,
        clock,
      };
      const filter = { all: options.all === true, ...(await subjectIds(command, [flow.source], options)) };
      for (const openFlow of await openFlows(deps, opened))
        plans.push({
          flow: flow.name,
          changes: await planFlow(
            { database, openFlow, clock },
            { limit: options.limit, skip: options.skip, signal, ...filter },
          ),
          documents: await countPlanned({ database, openFlow }, filter),
          registered: registered.has(flow.name),
        });
    }
    print(options, { plans }, () =>
      plans.length === 0
        ? 'No flow is configured.'
        : plans.map((plan) => `${plan.flow}\n${textOf(plan, options)}`).join('\n\n'),
    );
    const needsLook = ({ shadow, changes, registered: isKnown }: FlowPlan) =>
      shadow ? (shadow.status?.differing ?? 1) > 0 : !isKnown || changes.some(({ action }) => writes.has(action));
    return plans.some(needsLook) ? 1 : 0;
  });
}

/** Of a shadow: what its worker has found. Without `--all` only what differs from the live flow, or would be written. */
async function shadowPlan(command: BridgeCommand, flow: FlowSettings, options: PlanOptions): Promise<FlowPlan> {
  const { database } = command;
  const named = await subjectIds(command, [flow.source], options);
  const filter = { ...named, ...(options.all ? {} : { notable: true }) };
  const status = (await readShadowStatuses(database)).find((each) => each.flow === flow.name);
  const documents = await readShadowDocuments(database, flow.name, {
    limit: options.limit,
    skip: options.skip,
    ...filter,
  });
  return {
    flow: flow.name,
    changes: [],
    shadow: { status, documents },
    documents: await countShadowDocuments(database, flow.name, filter),
    registered: status !== undefined,
  };
}

function textOf(plan: FlowPlan, { skip, all }: PlanOptions): string {
  const { flow, changes, documents, registered, shadow } = plan;
  if (!registered)
    return (
      'This flow is not registered yet, so none of its documents is due and nothing can be planned. Start a process ' +
      `with the role push, or run \`bridge run\`; \`bridge mapping try ${flow}\` shows the documents before that.`
    );
  const end = skip + (shadow?.documents.length ?? changes.length);
  const table = shadow
    ? shadowText(shadow)
    : tableOf(
        ['action', 'kind', 'event', 'supplier', 'in the ERP as', 'not before', 'what', 'key'],
        changes.map(({ action, kind, key, notBefore, steps, eventName, supplierName, reference }) => [
          action,
          kind,
          eventName,
          supplierName,
          reference,
          shortTime(notBefore ?? null),
          steps.map(oneLine).join('; '),
          key,
        ]),
        skip > 0 ? 'No further documents.' : 'Nothing to write.',
      );
  if (end >= documents || end === skip) return table;
  const more = `bridge plan ${flow}${all === true ? ' --all' : ''} --skip ${end}`;
  return `${table}\n${skip + 1} to ${end} of ${documents}; further ones: ${more}`;
}

function shadowText({ status, documents }: NonNullable<FlowPlan['shadow']>): string {
  const beside = status?.beside == null ? '' : ` beside ${status.beside}`;
  return `A shadow${beside}: nothing of this is written.${status ? ` ${shadowCountsText(status)}` : ''}\n${shadowTable(documents)}`;
}

/**
 * The plan of another time: what would have been done with the versions of then, by today's settings. Exit code 1 when
 * anything differs from what was sent, or from what the other flow makes.
 */
function runPlanOfThen(options: PlanOptions, name: string | undefined, travel: Travel): Promise<number> {
  if (name === undefined) throw new AppError('invalid', 'Name the flow: bridge plan <flow> --as-of <time>.');
  if (options.supplier)
    throw new AppError('invalid', '--supplier does not go with another time: name events with --event.');
  return withBridge(options, async (command) => {
    const { settings, clock, installation, signal } = command;
    requireSource(settings);
    const flow = findFlow(settings, name);
    const report = await travelled(command, flow, travel, options);
    const asked = [flow, ...(options.against === undefined ? [] : [findFlow(settings, options.against)])];
    await using opened = new AsyncDisposableStack();
    const deps = { dataDir: installation.dataDir, log: installation.log, clock };
    const [own = [], others] = await Promise.all(
      // What is asked of a connector only reads, so each is opened as a shadow's is: it could not write.
      (await openFlows({ ...deps, settings: { ...settings, flows: asked.map(asReader) } }, opened)).map((openFlow) =>
        planTravelled({ openFlow, clock }, report.documents, signal),
      ),
    );
    const documents = report.documents.map((document, index) => ({
      ...document,
      steps: own[index] ?? [],
      ...(others ? { otherSteps: others[index] ?? [] } : {}),
    }));
    print(options, { ...report, documents }, () => [travelText(report), ...documents.flatMap(stepsText)].join('\n'));
    return documents.some(({ action }) => action !== 'none') ? 1 : 0;
  });
}

const asReader = (flow: FlowSettings): FlowSettings => ({ ...flow, shadow: true });

/** What the connector says; where two were asked, only what differs. */
function stepsText(document: {
  kind: string;
  key: string;
  at: string;
  steps: string[];
  otherSteps?: string[];
}): string[] {
  const { kind, key, at, steps, otherSteps } = document;
  const lines = otherSteps
    ? [
        ...otherSteps.filter((step) => !steps.includes(step)).map((step) => `- ${step}`),
        ...steps.filter((step) => !otherSteps.includes(step)).map((step) => `+ ${step}`),
      ]
    : steps;
  if (lines.length === 0) return [];
  return [`\n${kind} ${key} at ${at}, in the connector's words:`, ...lines.map((line) => `  ${oneLine(line)}`)];
}
