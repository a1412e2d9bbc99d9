/** What the commands say of shadow flows. */
import { type ShadowDocument, type ShadowStatus, shadowActions } from '#bridge/shadow/shadow-store.ts';
import { oneLine, tableOf } from './output.ts';

/** What a shadow would do, in one line. */
export function shadowCountsText(status: ShadowStatus): string {
  const { beside, examined, differing, counts, unexamined, lastError } = status;
  const actions = shadowActions.filter((name) => counts[name] > 0).map((name) => `${counts[name]} ${name}`);
  const against = beside === null ? '' : `; ${differing} differ from what ${beside} sends`;
  const error = lastError === null ? '' : ` (${oneLine(lastError)})`;
  const left = unexamined === 0 ? '' : `; ${unexamined} are not examined yet${error}`;
  return `It would do, of ${examined} documents: ${actions.join(', ') || 'nothing'}${against}${left}.`;
}

/** Documents of a shadow with what it would do and how that differs from the live flow's. */
export function shadowTable(documents: readonly ShadowDocument[]): string {
  return tableOf(
    ['would', 'kind', 'event', 'supplier', 'differs from the live flow by', 'what', 'key'],
    documents.map(({ action, kind, eventName, supplierName, steps, key, ...shadow }) => [
      action,
      kind,
      eventName,
      supplierName,
      differenceText(shadow),
      steps.map(oneLine).join('; '),
      key,
    ]),
    'Nothing to write.',
  );
}

function differenceText({
  differs,
  differences,
  live,
}: Pick<ShadowDocument, 'differs' | 'differences' | 'live'>): string {
  if (!differs) return '';
  if (differences.length > 0) return differences.map(oneLine).join('; ');
  const does = {
    document: 'sends it',
    withdrawn: 'withdraws it',
    rejected: 'cannot make it',
    held: 'holds it',
  } as const;
  return live in does ? `the live flow ${does[live as keyof typeof does]}` : `the live flow: ${live}`;
}
