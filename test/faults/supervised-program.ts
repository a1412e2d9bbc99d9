/**
 * A program as a service manager runs it: it is started again after a kill, and after a start that failed because the
 * database was away, which the program reports with exit code 1 (docs/processes.md). Any other end is a failure, and then
 * the program is not started again.
 */
import { expectGracefulEnd, outcomeOf, type Program, until } from './program-process.ts';

const databaseAway = 'The database is not available at the moment; try again shortly.';

export interface SupervisedProgram {
  readonly name: string;
  /** The process that runs now, or that ran last. */
  readonly program: Program;
  /** How the program failed, with all its output; undefined while it has not failed. */
  readonly failure: string | undefined;
  /** `kill -9`; the program is started again at once. */
  kill(): Promise<void>;
  /** Resolves when the program says that it is ready; rejects when it does not within a minute, or has failed. */
  ready(): Promise<void>;
  /** Waits until the program is ready and ends it for good; fails as `expectGracefulEnd` does. */
  end(): Promise<void>;
}

/** Starts the program and keeps it running; `note` is called when a start failed because the database was away. */
export function superviseProgram(
  name: string,
  start: () => Program,
  note: (what: string) => void = () => undefined,
): SupervisedProgram {
  let program = start();
  let failure: string | undefined;
  let stopping = false;
  const killed = new Set<Program>();
  void keepRunning();

  async function keepRunning(): Promise<void> {
    for (;;) {
      await program.end;
      if (stopping) return;
      if (couldNotStart(program)) note(`${name} could not start: started again`);
      else if (!(killed.has(program) && outcomeOf(program) === 'killed')) {
        failure = `${name}: ${program.report()}`;
        return;
      }
      program = start();
    }
  }

  async function ready(): Promise<void> {
    await until(
      `${name} is ready`,
      () => isReady(program),
      () => failure,
    );
  }

  return {
    name,
    get program() {
      return program;
    },
    get failure() {
      return failure;
    },
    kill: async () => {
      killed.add(program);
      await program.kill();
    },
    ready,
    end: async () => {
      await ready();
      stopping = true;
      await expectGracefulEnd(program);
    },
  };
}

const isReady = ({ lines }: Program) => lines.some((line) => / ready /.test(line));

/** A program that was ready must survive the loss of its database. Before that it may end with exit code 1, and says so. */
function couldNotStart(program: Program): boolean {
  return !isReady(program) && program.ended?.code === 1 && program.errors.includes(databaseAway);
}
