/** An event of an intake in words, with where a person sees it at the service. */
import { eventLink } from '#bridge/settings/event-link.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';

/** `the event "Steel" (e4…, https://…)`. */
export function intakeEventText(
  source: Pick<SourceSettings, 'event_url'>,
  { name, entity, make }: { name: string | null; entity: string | null; make: string },
): string {
  const places = entity === null ? [] : [entity, eventLink(source, entity)].filter((place) => place !== undefined);
  const what = make === 'request' ? 'request' : 'event';
  return `the ${what} "${name ?? ''}"${places.length === 0 ? '' : ` (${places.join(', ')})`}`;
}
