/** What needs a person, by the one list of conditions: the overview, the doctor, the alerts and the metrics have it, too. */
import type { FlowsAnswer } from '#console/api/flows.ts';
import { documentsPath, flowPath, intakePath, refusedPath } from './paths.ts';

export type Condition = FlowsAnswer['conditions'][number];

/** Whether something needs a person there: `flow sap`, `feed main/awards`, `intake vendors`. */
export function needsLook(conditions: readonly Condition[], subject: string): boolean {
  return conditions.some((condition) => condition.subject === subject);
}

/** Where a person sees more of a condition: its kind and subject decide. */
export function conditionPath({ kind, subject }: Condition): string {
  const [what = '', name = ''] = subject.split(' ');
  if (what === 'intake') return intakePath(name);
  if (kind === 'dead-letters') return refusedPath(name);
  if (kind === 'documents-stuck' || kind === 'erp-behind') return documentsPath({ flow: name, state: 'waiting' });
  if (what === 'flow') return flowPath(name);
  return what === 'feed' || what === 'source' ? '/sources' : '/system';
}
