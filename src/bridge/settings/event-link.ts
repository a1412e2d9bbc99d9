import type { SourceSettings } from './settings.ts';

/** Where people see the event at the service; undefined where the settings of its source do not say. */
export function eventLink(source: Pick<SourceSettings, 'event_url'> | undefined, event: string): string | undefined {
  return source?.event_url?.replace('{id}', encodeURIComponent(event));
}
