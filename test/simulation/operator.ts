/**
 * Operators: one who resumes paused flows and replays dead letters every half minute, once the faults have stopped; and
 * one who requests backfills and audits, cancels them, and sets checkpoints back during the chaos.
 */
import { replayDocuments, resumeFlow } from '#bridge/ledger/flows/control-flows.ts';
import {
  cancelBackfill,
  readBackfills,
  requestAudit,
  resetFeed,
  setCheckpoint,
  startBackfill,
} from '#bridge/operate/control-feeds.ts';
import { addMicros, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { createDatabase, type Database } from '#platform/database/database.ts';
import { errorText } from '#platform/errors.ts';
import { logOf } from './bridge-host.ts';
import { serverOf } from './simulated-pool.ts';
import { feedsOf, partOf, type SimulatedSource, type Simulation } from './simulation.ts';
import { currentProcess, SimulatedProcess } from './world.ts';

const everyMs = 30_000;

export function startOperator({ world, settings, postgres, sources }: Simulation): void {
  const erps = new Map(sources.flatMap((each) => [...each.erps]));
  const operator = new SimulatedProcess(world, 'operator', 0);
  serverOf.set(operator, postgres);
  currentProcess.run(operator, () => {
    const database = databaseOf(operator);
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

/** Schedules the commands at times that the seed chooses. A command may fail, as the database may be away. */
export function commandDuringChaos(simulation: Simulation): void {
  const { world, scenario, postgres, sources } = simulation;
  const operator = new SimulatedProcess(world, 'operator of chaos', 0);
  serverOf.set(operator, postgres);
  currentProcess.run(operator, () => {
    const database = databaseOf(operator);
    for (const each of sources) {
      const random = world.random.of(partOf(each.name, 'commands'));
      const { backfills, fullAudits, cancels, setBacks } = each.scenario.wide.commands;
      const sometime = (count: number, what: string, act: (feed: FeedId, nowMs: number) => Promise<unknown>) => {
        for (let index = 0; index < count; index += 1)
          world.after(random.fraction() * scenario.story.chaosMs, () =>
            operator.deliver(() => {
              const feed = { source: each.name, feed: random.pick(feedsOf(each.scenario)) };
              world.log(operator.id, `${what} ${feed.source}/${feed.feed}`);
              act(feed, world.nowMs).catch((error: unknown) => world.log(operator.id, `cannot: ${errorText(error)}`));
            }),
          );
      };
      const at = timestampFromMs;
      sometime(backfills, 'requests a backfill of', (feed, nowMs) =>
        startBackfill(database, { ...feed, from: at(nowMs - random.whole(1, 200_000)), to: at(nowMs) }, at(nowMs)),
      );
      sometime(fullAudits, 'requests an audit of', (feed, nowMs) => requestAudit(database, feed, at(nowMs)));
      sometime(cancels, 'cancels the backfills of', async (feed, nowMs) => {
        for (const backfill of await readBackfills(database))
          if (backfill.source === feed.source && backfill.feed === feed.feed)
            await cancelBackfill(database, backfill.id, at(nowMs));
      });
      sometime(setBacks, 'sets back', async (feed, nowMs) => {
        const [held] = await database.query<{ watermark: Timestamp | null }>(
          'select watermark from bridge.checkpoints where source = $1 and feed = $2',
          [feed.source, feed.feed],
        );
        const watermark = held?.watermark ?? null;
        return watermark === null || random.chance(0.5)
          ? resetFeed(database, feed, at(nowMs))
          : setCheckpoint(database, feed, addMicros(watermark, -1_000_000 * random.whole(1, 200)), at(nowMs));
      });
    }
  });
}

type FeedId = { source: SimulatedSource['name']; feed: string };

function databaseOf(operator: SimulatedProcess): Database {
  return createDatabase({ url: 'postgres://simulated/bridge', log: logOf(operator), applicationName: operator.id });
}
