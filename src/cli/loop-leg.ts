/** What `demo --loop` is made of: each leg edits one kind of thing on both sides, and knows what must be equal then. */
import type { SourceClient } from '#client/source-client.ts';
import type { Random } from '#service/simulator/random.ts';
import type { Installation } from './installation.ts';
import type { LocalPrograms } from './local-programs.ts';

export interface LoopRun {
  readonly installation: Installation;
  readonly programs: LocalPrograms;
  readonly client: SourceClient;
  readonly rounds: number;
  readonly suppliers: number;
  readonly seed: number;
  readonly signal: AbortSignal;
}

/** One kind of thing that both sides edit. */
export interface LoopLeg {
  /** One edit on each side, or none. */
  edit(random: Random, round: number): Promise<void>;
  /** What follows once the intakes are through. */
  finish?(): Promise<void>;
  /** How long each leg of the way took. */
  times?(): Promise<{ leg: string; ms: readonly number[] }[]>;
  /** What differs, in words; empty when both sides are equal. */
  compare(): Promise<string[]>;
  /** What was edited, for the terminal. */
  summary(): string;
}
