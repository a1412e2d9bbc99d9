/** The fields above a list. */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Filters as FilterValues } from './use-filters.ts';

/** The fields in one row; nothing is sent by Enter. */
export function Filters({ children }: { children: ComponentChildren }) {
  return (
    <form class="filters" onSubmit={(event) => event.preventDefault()}>
      {children}
    </form>
  );
}

export function ClearFilters({ filters }: { filters: FilterValues }) {
  return (
    <button type="button" class="plain" disabled={Object.keys(filters.values).length === 0} onClick={filters.clear}>
      Clear
    </button>
  );
}

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
  filters: FilterValues;
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
  filters: FilterValues;
  name: string;
  label: string;
  /** Values, with their texts where these differ. */
  choices: readonly (string | readonly [value: string, text: string])[];
}) {
  return (
    <label class="field">
      <span>{label}</span>
      <select
        value={filters.values[name] ?? ''}
        onChange={({ currentTarget }) => filters.set(name, currentTarget.value)}
      >
        <option value="">any</option>
        {choices
          .map((choice) => (typeof choice === 'string' ? ([choice, choice] as const) : choice))
          .map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
      </select>
    </label>
  );
}

/** A day in the reader's zone, as the time in UTC when it begins. */
export function DayFilter({ filters, name, label }: { filters: FilterValues; name: string; label: string }) {
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
