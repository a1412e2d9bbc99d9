/** How many documents there are, and how many of them wait or were refused; each number leads to its list. */
import type { DocumentCounts } from '#bridge/operate/history/list-subjects.ts';
import { documentsPath } from './paths.ts';

const countedMost = 1_000;

export function Counts({ counts, filter }: { counts: DocumentCounts; filter: Readonly<Record<string, string>> }) {
  const { documents, waiting, deadLetters } = counts;
  if (documents === 0) return <span class="quiet">none</span>;
  return (
    <span class="counts">
      <a href={documentsPath(filter)}>
        {documents === countedMost ? `${countedMost}+` : documents}
        <span class="visually-hidden"> documents</span>
      </a>
      {waiting > 0 ? (
        <a class="busy" href={documentsPath({ ...filter, state: 'waiting' })}>
          {waiting} waiting
        </a>
      ) : null}
      {deadLetters > 0 ? (
        <a class="bad" href={documentsPath({ ...filter, state: 'dead letter' })}>
          {deadLetters} refused
        </a>
      ) : null}
    </span>
  );
}
