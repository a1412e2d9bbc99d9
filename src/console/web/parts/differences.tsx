/** What differs between two states of a document, by field. */
import { documentDifferences } from '#bridge/operate/plan/document-differences.ts';
import { Empty } from './basics.tsx';

export function Differences({ before, after }: { before: unknown; after: unknown }) {
  const lines = documentDifferences(before, after);
  return lines.length === 0 ? <Empty>They are equal.</Empty> : <DifferenceLines lines={lines} />;
}

const signs: Readonly<Record<string, string>> = { '+': 'added', '-': 'removed', '~': 'changed' };

/** Lines of the forms `~ path: before -> after`, `+ path: after` and `- path: before`. */
export function DifferenceLines({ lines }: { lines: readonly string[] }) {
  return (
    <ul class="differences">
      {lines.map((line) => {
        const [, sign = '', path = '', rest = ''] = /^([+~-]) ([^:]*): (.*)$/s.exec(line) ?? [];
        if (sign === '') return <li key={line}>{line}</li>;
        const [before, after] = sign === '~' ? rest.split(' -> ', 2) : sign === '-' ? [rest] : [undefined, rest];
        return (
          <li key={line} class={signs[sign]}>
            <code class="path">{path}</code>
            <span class="visually-hidden">{signs[sign]}</span>
            {before === undefined ? null : <del>{before}</del>}
            {before !== undefined && after !== undefined ? <span aria-hidden="true"> → </span> : null}
            {after === undefined ? null : <ins>{after}</ins>}
          </li>
        );
      })}
    </ul>
  );
}
