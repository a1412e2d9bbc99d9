/** `bridge plan`: what flows would write to ERPs now, and intakes send to the service; does neither. */
import { openFlows } from '#bridge/connectors/open-flows.ts';
import { registeredFlows } from '#bridge/ledger/flows/flow-state.ts';
import { countPlanned, planFlow } from '#bridge/operate/plan/plan-flow.ts';
import { type BridgeCommandOptions, isIntake, requireSource, withBridge } from '../bridge-command.ts';
import { type SubjectOptions, subjectIds } from '../named-subjects.ts';
import { moreText, oneLine, print, shortTime, tableOf } from '../output.ts';
import { type IntakePlan, intakePlanText, planIntakes } from '../plan-intakes.ts';

export interface PlanOptions extends BridgeCommandOptions, SubjectOptions {
  limit: number;
  all?: boolean;
}

type Changes = Awaited<ReturnType<typeof planFlow>>;

interface FlowPlan {
  flow: string;
  changes: Changes;
  /** How many documents are due, or with `--all` exist; `changes` holds at most `--limit`. */
  documents: number;
  /** False: no process has begun with this flow yet, so none of its documents is due. */
  registered: boolean;
}

const writes = new Set<Changes[number]['action']>(['create', 'amend', 'cancel', 'reject']);

/**
 * Plans one flow or intake, or all. Exit code 1 when there is something to write or to send, something that would be
 * refused, or a flow that is not registered: what it would write is not known.
 */
export function runPlan(options: PlanOptions, name: string | undefined): Promise<number> {
  return withBridge(options, async (command) => {
    const { settings, database, clock, installation, signal } = command;
    requireSource(settings);
    const isOfIntake = name !== undefined && isIntake(settings, name);
    const isNamed = (each: { name: string }) => name === undefined || each.name === name;
    const flows = settings.flows.filter((flow) => !isOfIntake && isNamed(flow));
    // Events and suppliers are chosen among the documents of flows.
    const isFiltered = options.event !== undefined || options.supplier !== undefined;
    const intakes = settings.intakes.filter((intake) => !isFiltered && isNamed(intake));
    await using opened = new AsyncDisposableStack();
    const plans: FlowPlan[] = [];
    const registered = await registeredFlows(database);
    for (const flow of flows) {
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
          changes: await planFlow({ database, openFlow, clock }, { limit: options.limit, skip: 0, signal, ...filter }),
          documents: await countPlanned({ database, openFlow }, filter),
          registered: registered.has(flow.name),
        });
    }
    const ofIntakes = await planIntakes(command, intakes, options.limit);
    print(options, { plans, intakes: ofIntakes }, () => {
      const texts = [...plans.map((plan) => `${plan.flow}\n${textOf(plan)}`), ...ofIntakes.map(intakePlanText)];
      return texts.length === 0 ? 'No flow is configured.' : texts.join('\n\n');
    });
    const needsLook = ({ changes, registered: isKnown }: FlowPlan) =>
      !isKnown || changes.some(({ action }) => writes.has(action));
    const sends = ({ changes, events }: IntakePlan) => changes.length + events.length > 0;
    return plans.some(needsLook) || ofIntakes.some(sends) ? 1 : 0;
  });
}

function textOf({ flow, changes, documents, registered }: FlowPlan): string {
  if (!registered)
    return (
      'This flow is not registered yet, so none of its documents is due and nothing can be planned. To look before ' +
      'anything is written, give it `begins_paused: true`; then start a process with the role push, or run ' +
      `\`bridge run\`. \`bridge mapping try ${flow}\` shows the documents before that.`
    );
  const table = tableOf(
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
    'Nothing to write.',
  );
  return changes.length < documents ? `${table}\n${changes.length} of ${documents}. ${moreText}` : table;
}
