/** The fields above a list. */
import { useEffect, useState } from 'preact/hooks';
import type { Filters } from './use-filters.ts';

const typedMs = 300;
const decimalInput: object = { type: 'text', inputMode: 'decimal' };
const searchInput: object = { type: 'search' };

/** A text that is applied shortly after the last key. */
export function TextFilter({
  filters,
  name,
  label,
  kind = 'search',
}: {
  filters: Filters;
  name: string;
  label: string;
  kind?: 'search' | 'text';
}) {
  const applied = filters.values[name] ?? '';
  const [typed, setTyped] = useState(applied);
  useEffect(() => setTyped(applied), [applied]);
  useEffect(() => {
    if (typed === applied) return;
    const timer = setTimeout(() => filters.set(name, typed.trim()), typedMs);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <label class="field">
      <span>{label}</span>
      <input
        {...(kind === 'text' ? decimalInput : searchInput)}
        value={typed}
        onInput={({ currentTarget }) => setTyped(currentTarget.value)}
      />
    </label>
  );
}

export function ChoiceFilter({
  filters,
  name,
  label,
  choices,
}: {
  filters: Filters;
  name: string;
  label: string;
  choices: readonly (readonly [value: string, text: string])[];
}) {
  return (
    <label class="field">
      <span>{label}</span>
      <select
        value={filters.values[name] ?? ''}
        onChange={({ currentTarget }) => filters.set(name, currentTarget.value)}
      >
        <option value="">any</option>
        {choices.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A day in the reader's zone, as the time in UTC when it begins. */
export function DayFilter({ filters, name, label }: { filters: Filters; name: string; label: string }) {
  const applied = filters.values[name];
  const day = applied === undefined ? '' : dayOf(new Date(applied));
  const set = (text: string) => {
    const date = new Date(`${text}T00:00:00`);
    filters.set(name, Number.isNaN(date.getTime()) ? '' : date.toISOString());
  };
  return (
    <label class="field">
      <span>{label}</span>
      <input type="date" value={day} onChange={({ currentTarget }) => set(currentTarget.value)} />
    </label>
  );
}

function dayOf(date: Date): string {
  const two = (number: number) => String(number).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}
