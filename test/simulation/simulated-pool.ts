/**
 * The driver's pool in a simulated process: `#platform/database/database.ts` uses it, and it connects to the simulated
 * server.
 */
import type { Session, SimulatedPostgres, Statement } from './simulated-postgres.ts';
import { currentProcess, type SimulatedProcess } from './world.ts';

/** The server of each world's processes. */
export const serverOf = new WeakMap<SimulatedProcess, SimulatedPostgres>();

const sessionsMax = 10;

/** The part of `pg`'s Pool that the bridge uses. */
export class SimulatedPool {
  readonly #process: SimulatedProcess;
  readonly #server: SimulatedPostgres;
  readonly #all = new Set<Session>();
  readonly #idle: Session[] = [];
  readonly #waiting: ((session: Promise<Session>) => void)[] = [];
  #opening = 0;

  constructor() {
    const process = currentProcess.getStore();
    const server = process && serverOf.get(process);
    if (!process || !server) throw new Error('A simulated pool was opened outside of a simulated process.');
    this.#process = process;
    this.#server = server;
    process.whenDead.push(() => {
      for (const session of this.#all) server.abandon(session);
    });
  }

  on(): this {
    return this;
  }

  async connect() {
    return this.#clientOf(await this.#take());
  }

  #take(): Promise<Session> {
    for (let session = this.#idle.pop(); session; session = this.#idle.pop()) {
      if (!session.closed) return Promise.resolve(session);
      this.#all.delete(session);
    }
    if (this.#all.size + this.#opening < sessionsMax) return this.#open();
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  async #open(): Promise<Session> {
    this.#opening += 1;
    try {
      const session = await this.#server.connect(this.#process);
      this.#all.add(session);
      return session;
    } finally {
      this.#opening -= 1;
    }
  }

  #clientOf(session: Session) {
    const server = this.#server;
    return {
      query: (statement: Statement, answered: (error: unknown, result?: unknown) => void) => {
        server.query(session, statement).then((result) => answered(null, result), answered);
      },
      on: (_event: string, listener: (error: Error) => void) => session.listeners.add(listener),
      removeListener: (_event: string, listener: (error: Error) => void) => session.listeners.delete(listener),
      release: (broken: boolean) => this.#release(session, broken),
    };
  }

  #release(session: Session, broken: boolean): void {
    if (broken || session.closed) {
      this.#all.delete(session);
      this.#process.world.after(0.1, () => this.#server.close(session));
      this.#waiting.shift()?.(this.#open());
      return;
    }
    const next = this.#waiting.shift();
    if (next) next(Promise.resolve(session));
    else this.#idle.push(session);
  }

  async end(): Promise<void> {
    for (const session of this.#all) this.#process.world.after(0.1, () => this.#server.close(session));
    this.#all.clear();
  }
}
