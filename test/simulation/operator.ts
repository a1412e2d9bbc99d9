/** An operator who resumes paused flows and replays dead letters every half minute, once the faults have stopped. */
import { replayDocuments, resumeFlow } from '#bridge/flows/control-flows.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { createDatabase } from '#platform/database/database.ts';
import { errorText } from '#platform/errors.ts';
import { logOf } from './bridge-host.ts';
import { serverOf } from './simulated-pool.ts';
import type { Simulation } from './simulation.ts';
import { currentProcess, SimulatedProcess } from './world.ts';

const everyMs = 30_000;

export function startOperator({ world, settings, postgres, erps }: Simulation): void {
  const operator = new SimulatedProcess(world, 'operator', 0);
  serverOf.set(operator, postgres);
  currentProcess.run(operator, () => {
    const database = createDatabase({
      url: 'postgres://simulated/bridge',
      log: logOf(operator),
      applicationName: operator.id,
    });
    const act = async () => {
      const now = timestampFromMs(world.nowMs);
      for (const { name, connector } of settings.flows) {
        const [flow] = await database.query<{ paused: boolean; dead: boolean }>(
          `select paused_reason is not null as paused, exists (
             select from bridge.flow_documents d where d.flow = f.name and d.dead_since is not null) as dead
           from bridge.flows f where name = $1`,
          [name],
        );
        if (flow?.paused) {
          const erp = erps.get(connector);
          if (erp) erp.withdrawalRule = undefined;
          await resumeFlow(database, name, { agreeToWithdrawals: true }, now);
        }
        if (flow?.dead) await replayDocuments(database, { flow: name, dead: true }, now);
      }
    };
    const actAgain = () => {
      act().catch((error: unknown) => world.log(operator.id, `cannot act: ${errorText(error)}`));
      setTimeout(actAgain, everyMs);
    };
    actAgain();
  });
}
