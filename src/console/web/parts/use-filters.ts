/** The filters of a list, which stand in the address of the page: a link shows the same list. */
import { useLocation } from 'preact-iso';
import { queryText } from '../state/api.ts';

export interface Filters {
  readonly values: Readonly<Record<string, string>>;
  /** Sets or, with an empty text, removes a filter. */
  readonly set: (name: string, value: string) => void;
  readonly clear: () => void;
}

export function useFilters(): Filters {
  const { query: values, path, route } = useLocation();
  return {
    values,
    set: (name, value) => route(`${path}${queryText({ ...values, [name]: value })}`, true),
    clear: () => route(path, true),
  };
}
