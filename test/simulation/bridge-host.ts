/** A host on which a process of the bridge runs: it is started, killed or stopped, and started again. */
import { type Bridge, startBridge } from '#bridge/create-bridge.ts';
import type { ProcessIdentity } from '#bridge/settings/process-identity.ts';
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
/** How long a process may take to end after SIGTERM. */
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

  /** The process has started; or it has ended, on a host that was retired. */
  get isReady(): boolean {
    return this.#retired ? this.process?.alive !== true : this.process?.alive === true && this.#bridge !== undefined;
  }

  /** Whether its process has every role. */
  get doesAll(): boolean {
    return this.#role === 'all';
  }

  /** Ends the process and does not start it again. */
  retire(how: 'stop' | 'kill'): void {
    this.#retired = true;
    if (how === 'stop' && this.#bridge) this.stop();
    else this.kill();
  }

  start(): void {
    if (this.#retired) return;
    const { world, scenario, sources, settings, postgres, queue } = this.#simulation;
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
    // Like a service manager: the process is started again after it has ended for any reason.
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
        actionDays: 730,
        database: createDatabase({ url: 'postgres://simulated/bridge', log, applicationName: id }),
        signals: queue.signals(process),
        fetch: fetchIn(process, sources),
        secrets,
        clock: { nowMs: () => process.nowMs, sleep: (ms, signal) => sleepIn(process, ms, signal) },
        log,
        // Without Node's own metrics, whose observers would stay as long as the test process runs.
        registry: new Registry(),
        processIdentity: identityOf(process, scenario.processes.oneMachine),
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

  /** Stops the process as SIGTERM does. */
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

/** On one machine a process sees which others have ended; on several machines it never does. */
function identityOf({ id, world }: SimulatedProcess, oneMachine: boolean): ProcessIdentity {
  return {
    own: id,
    isOver: (identity) => oneMachine && world.processes.some((other) => other.id === identity && !other.alive),
  };
}

/** Writes the log of a process into the log of the world. */
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
