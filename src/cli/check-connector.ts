/** The connector's own checks of a flow's ERP, and of the ERP of an intake, for `bridge doctor`. */
import { openFlows } from '#bridge/connectors/open-flows.ts';
import { openIntakes } from '#bridge/intake/open-intakes.ts';
import type { CheckResult } from '#connector/connector.ts';
import type { BridgeCommand } from './bridge-command.ts';

const timeLimitMs = 20_000;
const withoutChecks: CheckResult = { name: 'connector', ok: true, message: 'opens; it has no checks of its own' };

/**
 * Opens the connector of the flow, runs its checks and closes it. An ERP that has not answered within the time limit is
 * one line that failed. Rejects as `openFlows` and the connector's checks do.
 */
export async function checkConnector(
  { settings, installation, clock }: BridgeCommand,
  name: string,
  limitMs = timeLimitMs,
): Promise<CheckResult[]> {
  const flows = settings.flows.filter((flow) => flow.name === name);
  const deps = { settings: { ...settings, flows }, dataDir: installation.dataDir, log: installation.log, clock };
  return withinLimit(clock, limitMs, async (opened) =>
    (await openFlows(deps, opened)).map(
      ({ session }) =>
        () =>
          session.check(),
    ),
  );
}

/** The same of the connector that an intake reads by. */
export async function checkIntakeConnector(
  { settings, installation, clock }: BridgeCommand,
  name: string,
): Promise<CheckResult[]> {
  const intakes = settings.intakes.filter((intake) => intake.name === name);
  const deps = { settings: { ...settings, intakes }, dataDir: installation.dataDir, log: installation.log, clock };
  return withinLimit(clock, timeLimitMs, async (opened) =>
    (await openIntakes(deps, opened)).map((intake) => () => intake.check()),
  );
}

async function withinLimit(
  clock: BridgeCommand['clock'],
  limitMs: number,
  open: (opened: AsyncDisposableStack) => Promise<(() => Promise<CheckResult[]>)[]>,
): Promise<CheckResult[]> {
  await using opened = new AsyncDisposableStack();
  const ended = new AbortController();
  opened.defer(() => ended.abort());
  const late = clock
    .sleep(limitMs, ended.signal)
    .then(() => [{ name: 'connector', ok: false, message: `its checks have not ended in ${limitMs / 1_000} s` }]);
  const check = async () => {
    const results: CheckResult[] = [];
    for (const ask of await open(opened)) results.push(...(await ask()));
    return results.length > 0 ? results : [withoutChecks];
  };
  const checked = check();
  // Neither may reject unheard once the other has ended.
  for (const each of [checked, late]) each.catch(() => undefined);
  return await Promise.race([checked, late]);
}
