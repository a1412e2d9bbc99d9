/** A host on which a process of the bridge runs: started, killed, stopped, and started again, one life after the other. */
import { type Bridge, startBridge } from '#bridge/create-bridge.ts';
import type { ProcessIdentity } from '#bridge/leases/process-identity.ts';
import { createDatabase } from '#platform/database/database.ts';
import { errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { sleepIn } from './replaced-globals.ts';
import type { Scenario } from './scenario.ts';
import { fetchIn } from './simulated-network.ts';
import { serverOf } from './simulated-pool.ts';
import type { Simulation } from './simulation.ts';
import { currentProcess, SimulatedProcess } from './world.ts';

const secrets = createSecretBox(Buffer.alloc(32, 7));
/** How long a process may take to end when it is asked to. */
const stopMs = 15_000;

export class BridgeHost {
  readonly #simulation: Simulation;
  readonly name: string;
  readonly #role: Scenario['processes']['roles'][number];
  #lives = 0;
  #bridge: Bridge | undefined;
  #retired = false;
  process: SimulatedProcess | undefined;

  constructor(simulation: Simulation, role: Scenario['processes']['roles'][number], index: number) {
    this.#simulation = simulation;
    this.#role = role;
    this.name = `${role}${index}`;
  }

  /** It does what it is there for, or is not there any more. */
  get isReady(): boolean {
    return this.#retired ? this.process?.alive !== true : this.process?.alive === true && this.#bridge !== undefined;
  }

  /** Whether it can do everything. */
  get doesAll(): boolean {
    return this.#role === 'all';
  }

  /** It ends one way or the other, and is not started again. */
  retire(how: 'stop' | 'kill'): void {
    this.#retired = true;
    if (how === 'stop' && this.#bridge) this.stop();
    else this.kill();
  }

  start(): void {
    if (this.#retired) return;
    const { world, scenario, source, settings, postgres, queue } = this.#simulation;
    this.#lives += 1;
    const id = `${this.name}.${this.#lives}`;
    const random = world.random.of(id);
    const process = new SimulatedProcess(
      world,
      id,
      Math.round((random.fraction() * 2 - 1) * scenario.processes.skewMs),
    );
    serverOf.set(process, postgres);
    this.process = process;
    this.#bridge = undefined;
    world.log(id, 'starts');
    // Whatever ended it, it is started again.
    process.whenDead.push(() => {
      world.after(world.chaos ? 200 + random.fraction() * 20_000 : 2_000, () => this.start());
    });
    const log = logOf(process);
    currentProcess.run(process, () => {
      startBridge({
        settings,
        role: this.#role,
        tls: { certPem: '', keyPem: '' },
        dataDir: '/nowhere',
        sweepMs: scenario.settings.sweepMs,
        database: createDatabase({ url: 'postgres://simulated/bridge', log, applicationName: id }),
        signals: queue.signals(process),
        fetch: fetchIn(process, source),
        secrets,
        clock: { nowMs: () => process.nowMs, sleep: (ms, signal) => sleepIn(process, ms, signal) },
        log,
        // Without Node's own metrics, whose observers live as long as this process of Node does.
        registry: new Registry(),
        processIdentity: markOf(process, scenario.processes.oneMachine),
      }).then(
        (bridge) => {
          this.#bridge = bridge;
          world.log(id, 'is ready');
        },
        (error: unknown) => {
          world.log(id, `cannot start: ${errorText(error)}`);
          process.die();
        },
      );
    });
  }

  kill(): void {
    if (!this.process?.alive) return;
    this.process.world.log(this.process.id, 'is killed');
    this.process.die();
  }

  /** As SIGTERM does. */
  stop(): void {
    const process = this.process;
    const bridge = this.#bridge;
    if (!process?.alive || !bridge) return;
    process.world.log(process.id, 'is asked to stop');
    process.world.after(stopMs, () => process.die());
    process.deliver(() => {
      bridge.close(10_000).then(
        () => process.die(),
        (error: unknown) => {
          process.world.log(process.id, `could not close: ${errorText(error)}`);
          process.die();
        },
      );
    });
  }
}

/** On one machine a process sees which others are over; on several it never does. */
function markOf({ id, world }: SimulatedProcess, oneMachine: boolean): ProcessIdentity {
  return {
    own: id,
    isOver: (mark) => oneMachine && world.processes.some((other) => other.id === mark && !other.alive),
  };
}

/** What a process logs is among what happens. */
export function logOf(process: SimulatedProcess): Logger {
  const write = (level: string) => (first: unknown, text?: string) => {
    const facts = typeof first === 'object' && first !== null ? (first as { err?: unknown; error?: unknown }) : {};
    const about = facts.err ?? facts.error;
    const reason = about === undefined ? '' : errorText(about);
    process.world.log(process.id, `${level}: ${text ?? String(first)} ${reason}`);
  };
  const log = {
    level: 'info',
    debug: () => undefined,
    trace: () => undefined,
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    fatal: write('fatal'),
    isLevelEnabled: () => false,
    child: () => log,
  };
  return log as unknown as Logger;
}
