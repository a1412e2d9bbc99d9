/** The addresses of the application's pages. */
import { queryText } from '../state/api.ts';

export function documentPath({ flow, kind, key }: { flow: string; kind: string; key: string }): string {
  return `/documents/${encodeURIComponent(flow)}/${encodeURIComponent(kind)}/${encodeURIComponent(key)}`;
}

export function eventPath(source: string, id: string): string {
  return `/events/${encodeURIComponent(source)}/${encodeURIComponent(id)}`;
}

export function supplierPath(id: string): string {
  return documentsPath({ supplier: id });
}

export function flowPath(flow: string): string {
  return `/flows/${encodeURIComponent(flow)}`;
}

export function comparisonPath(run: number): string {
  return `/comparisons/${run}`;
}

export function intakePath(intake: string): string {
  return `/intakes/${encodeURIComponent(intake)}`;
}

export function refusedPath(flow: string): string {
  return `/refused${queryText({ flow })}`;
}

export function documentsPath(filters: Readonly<Record<string, string | undefined>>): string {
  return `/documents${queryText(filters)}`;
}
