/** What differs between two states of a document: by field, or in the raw JSON. */
import { diffLines } from 'diff';
import { useState } from 'preact/hooks';
import { documentDifferences } from '#bridge/operate/plan/document-differences.ts';
import { Empty, Tabs } from './basics.tsx';

export function Differences({ before, after }: { before: unknown; after: unknown }) {
  const [view, setView] = useState<'fields' | 'raw'>('fields');
  const lines = documentDifferences(before, after);
  if (lines.length === 0) return <Empty>They are equal.</Empty>;
  return (
    <div>
      <Tabs label="How differences are shown" names={['fields', 'raw'] as const} chosen={view} choose={setView} />
      {view === 'fields' ? <DifferenceLines lines={lines} /> : <RawDifferences before={before} after={after} />}
    </div>
  );
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

/** Unchanged lines around a difference that are shown. */
const context = 2;

function RawDifferences({ before, after }: { before: unknown; after: unknown }) {
  const parts = diffLines(JSON.stringify(before, null, 2), JSON.stringify(after, null, 2));
  return (
    <pre class="raw" tabindex={0}>
      {parts.map((part, index) => {
        if (part.added) return <ins key={index}>{part.value}</ins>;
        if (part.removed) return <del key={index}>{part.value}</del>;
        const lines = part.value.replace(/\n$/, '').split('\n');
        if (lines.length <= 2 * context) return <span key={index}>{part.value}</span>;
        const head = index === 0 ? [] : lines.slice(0, context);
        const tail = index === parts.length - 1 ? [] : lines.slice(-context);
        return (
          <span
            key={index}
          >{`${[...head, `  … ${lines.length - head.length - tail.length} equal lines`, ...tail].join('\n')}\n`}</span>
        );
      })}
    </pre>
  );
}
