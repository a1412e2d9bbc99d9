/** An event of an intake in words, with where a person sees it. */
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';

/** Where a person sees the event; undefined where the settings do not say. */
export function eventLink({ event_url: form }: Pick<IntakeSettings, 'event_url'>, entity: string | null) {
  if (form === undefined || entity === null) return undefined;
  return form.replaceAll(/\{id\}|%7Bid%7D/gi, encodeURIComponent(entity));
}

/** `the event "Steel" (e4…, https://…)`. */
export function intakeEventText(
  intake: Pick<IntakeSettings, 'event_url'>,
  { name, entity, make }: { name: string | null; entity: string | null; make: string },
): string {
  const places = [entity, eventLink(intake, entity)].filter((place) => place !== null && place !== undefined);
  const what = make === 'request' ? 'request' : 'event';
  return `the ${what} "${name ?? ''}"${places.length === 0 ? '' : ` (${places.join(', ')})`}`;
}
