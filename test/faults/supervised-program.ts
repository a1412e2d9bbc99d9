/**
 * A program as a service manager runs it: started again when it was killed, and when it could not start because its
 * database was away, which it says and ends with exit code 1 (docs/bridge.md). Any other end that it makes by itself is
 * a failure, and the program is left as it is.
 */
import { expectGracefulEnd, outcomeOf, type Program, until } from './program-process.ts';

const databaseAway = 'The database is not available at the moment; try again shortly.';

export interface SupervisedProgram {
  readonly name: string;
  /** The process that runs, or ran last. */
  readonly program: Program;
  /** How it ended by itself, with all that it wrote; undefined while all is well. */
  readonly failure: string | undefined;
  /** `kill -9`; it is started again at once. */
  kill(): Promise<void>;
  /** Resolves when it says that it is ready; rejects when it does not within a minute, or failed. */
  ready(): Promise<void>;
  /** Waits until it is ready and ends it for good; fails as `expectGracefulEnd` does. */
  end(): Promise<void>;
}

/** Starts it and keeps it running; `tell` learns of a start that failed because the database was away. */
export function superviseProgram(
  name: string,
  start: () => Program,
  tell: (what: string) => void = () => undefined,
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
      if (couldNotStart(program)) tell(`${name} could not start: started again`);
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

/** One that had been ready must outlast its database; before, the text is the last that it says, with the reason. */
function couldNotStart(program: Program): boolean {
  return !isReady(program) && program.ended?.code === 1 && program.errors.slice(-2).includes(databaseAway);
}
