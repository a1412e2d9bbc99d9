/** `bridge promote`: makes a shadow flow the live one, after showing what it would write. */
import { isBegunWith } from '#bridge/flows/resume-on-settings-change.ts';
import { type Promotion, planPromotion, promoteFlow } from '#bridge/shadow/promote-flow.ts';
import { readShadowDocuments, readShadowStatuses, type ShadowStatus } from '#bridge/shadow/shadow-store.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type BridgeCommandOptions, findFlow, withBridge } from '../bridge-command.ts';
import { confirm } from '../confirm.ts';
import { print } from '../output.ts';
import { shadowCountsText, shadowTable } from '../shadow-words.ts';

export interface PromoteOptions extends BridgeCommandOptions {
  limit: number;
  since?: Timestamp;
  sameErp?: boolean;
  newErp?: boolean;
  yes?: boolean;
}

/** Exit code 1 when the operator does not agree: nothing has changed then. */
export function runPromote(options: PromoteOptions, name: string): Promise<number> {
  return withBridge(options, async ({ settings, database, clock, signal, perform, installation }) => {
    const flow = findFlow(settings, name);
    if (options.sameErp && options.newErp) throw new AppError('invalid', 'Use --same-erp or --new-erp, not both.');
    const sameErp = options.sameErp ? true : options.newErp ? false : undefined;
    const configured = settings.flows;
    const isExamined = await isBegunWith(database, flow, installation.secrets);
    const plan = await planPromotion(database, { flow, configured, ...(sameErp !== undefined && { sameErp }) });
    if (!isExamined)
      throw new AppError(
        'invalid',
        `The connector's settings of "${name}" are not those that the shadow has run with: give it shadow: true again, start the bridge, and look at bridge plan ${name}.`,
      );
    if (options.since !== undefined && plan.takesOver)
      throw new AppError(
        'invalid',
        `--since is for another ERP. "${name}" goes on with the objects of ${plan.replaces}.`,
      );
    const status = (await readShadowStatuses(database)).find((shadow) => shadow.flow === name);
    const documents = await readShadowDocuments(database, name, {
      limit: options.limit,
      actions: ['create', 'amend', 'cancel', 'reject'],
    });
    if (!options.json) print(options, {}, () => planText(plan, status, documents, options));
    if (!(await confirm(`Make ${name} the live flow?`, options, signal))) return 1;
    await perform(
      {
        what: 'flow.promote',
        object: `flow ${name}`,
        details: { replaces: plan.replaces, takesOver: plan.takesOver, since: options.since ?? null },
      },
      () => promoteFlow(database, { flow, configured, plan, since: options.since }, timestampNow(clock)),
    );
    print(
      options,
      { ...plan, status: status ?? null, documents },
      () =>
        `${name} is the live flow. Restart the programs with this configuration: nothing of it is sent before, and the ERP is asked about each document before it is written.`,
    );
    return 0;
  });
}

function planText(
  { flow, replaces, takesOver, leftBehind }: Promotion,
  status: ShadowStatus | undefined,
  documents: Parameters<typeof shadowTable>[0],
  { since }: PromoteOptions,
): string {
  const owns = takesOver
    ? `It goes on with the objects of ${replaces}: nothing is created twice.`
    : replaces === null
      ? 'It begins from nothing.'
      : `It begins from nothing in another ERP; what ${replaces} has delivered stays where it is.`;
  return [
    replaces === null ? `${flow} becomes live.` : `${flow} takes the place of ${replaces}. ${owns}`,
    ...(since === undefined ? [] : [`What has not changed since ${since} is not written before it changes.`]),
    ...(takesOver && leftBehind > 0
      ? [`${leftBehind} documents of kinds that ${flow} does not take stay in the ERP as they are.`]
      : []),
    ...(status ? [shadowCountsText(status)] : []),
    shadowTable(documents),
  ].join('\n');
}
