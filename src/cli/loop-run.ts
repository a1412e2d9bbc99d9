/** One run of `demo --loop`, and its ERP. */
import type { SourceClient } from '#client/source-client.ts';
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

/** What the loop needs of the memory connector's ERP. */
export interface LoopErp {
  readonly address: string;
  saveRecord(list: 'suppliers' | 'requisitions', record: object): void;
  deleteRecord(list: 'requisitions', number: string): void;
  /** What the ERP shows of the sourcing of a requisition; `project`: the service's id of the event. */
  sourcingOf(requisition: string): { status: string; project?: string } | undefined;
  allOf(type: string): {
    lines?: readonly { quantity?: string; requisition?: { number: string; line?: string } }[];
  }[];
}
