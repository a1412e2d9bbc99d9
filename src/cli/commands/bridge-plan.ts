/** `bridge plan`: what would be written to each ERP now; changes nothing. */
import { planFlow } from '#bridge/push/plan-flow.ts';
import { openFlows } from '#bridge/push/start-push.ts';
import { type BridgeCommandOptions, findFlow, withBridge } from '../bridge-command.ts';
import { oneLine, print, shortTime, tableOf } from '../output.ts';

export interface PlanOptions extends BridgeCommandOptions {
  limit: number;
  all?: boolean;
}

type Changes = Awaited<ReturnType<typeof planFlow>>;

const writes = new Set<Changes[number]['action']>(['create', 'amend', 'cancel', 'reject']);

/** Of one flow, or of all. Exit code 1 when there is something to write, or something that would be refused. */
export function runPlan(options: PlanOptions, name: string | undefined): Promise<number> {
  return withBridge(options, async ({ settings, database, clock, installation, signal }) => {
    const flows = name === undefined ? settings.flows : [findFlow(settings, name)];
    await using opened = new AsyncDisposableStack();
    const plans: { flow: string; changes: Changes }[] = [];
    for (const flow of flows) {
      const deps = { settings: { ...settings, flows: [flow] }, dataDir: installation.dataDir };
      for (const openFlow of await openFlows(deps, opened))
        plans.push({
          flow: flow.name,
          changes: await planFlow(
            { database, openFlow, clock },
            { limit: options.limit, all: options.all === true, signal },
          ),
        });
    }
    print(options, { plans }, () =>
      plans.length === 0
        ? 'No flow is configured.'
        : plans.map(({ flow, changes }) => `${flow}\n${textOf(changes)}`).join('\n\n'),
    );
    return plans.some(({ changes }) => changes.some(({ action }) => writes.has(action))) ? 1 : 0;
  });
}

function textOf(changes: Changes): string {
  return tableOf(
    ['action', 'kind', 'key', 'not before', 'what'],
    changes.map((one) => [
      one.action,
      one.kind,
      one.key,
      shortTime(one.notBefore ?? null),
      one.steps.map(oneLine).join('; '),
    ]),
    'Nothing to write.',
  );
}
