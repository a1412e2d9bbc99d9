/** The figures that have a goal, gathered over a run and printed at its end. */
import { printTable } from './figures.ts';

export interface Goal {
  readonly name: string;
  readonly measured: number;
  /** The figure is to be at least, or at most, this. */
  readonly least?: number;
  readonly most?: number;
  readonly unit?: string;
}

const goals: Goal[] = [];

/** Keeps a figure for the table at the end. */
export function noteGoal(goal: Goal): void {
  goals.push(goal);
}

export function goalsSoFar(): readonly Goal[] {
  return goals;
}

/** Prints all figures that were kept, each with its goal. A goal that is missed is no failure of the run. */
export function printGoals(): void {
  if (goals.length === 0) return;
  console.log('Goals');
  printTable([
    ['', 'measured', 'goal', ''],
    ...goals.map(({ name, measured, least, most, unit = '' }) => {
      const digits = unit === '' || measured < 10 ? 2 : 0;
      const show = (figure: number) => `${figure.toFixed(digits)}${unit}`;
      const isMet = measured >= (least ?? Number.NEGATIVE_INFINITY) && measured <= (most ?? Number.POSITIVE_INFINITY);
      const goal = least === undefined ? `at most ${show(most ?? Number.NaN)}` : `at least ${show(least)}`;
      return [name, show(measured), goal, isMet ? 'met' : 'missed'];
    }),
  ]);
}
