/** The scenarios of an event in SQL. The caller of what writes holds the lock of the event. */
import type { Sql } from '#platform/database/sql.ts';
import type { ScenarioAward } from '../domain/sourcing-event.ts';

export interface Scenario {
  readonly name: string;
  readonly awards: readonly ScenarioAward[];
}

/** The scenarios of an event in the order of their names, their awards in the order of the lots. */
export async function loadScenarios(sql: Sql, eventId: string): Promise<Scenario[]> {
  return sql.query<Scenario>(
    `select s.name, coalesce((
         select json_agg(award order by l.position, p.external_id) from jsonb_array_elements(s.awards) as award
         join service.lots l on l.id = (award ->> 'lotId')::uuid
         join service.suppliers p on p.id = (award ->> 'supplierId')::uuid), '[]') as awards
     from service.scenarios s where s.event_id = $1 order by s.name`,
    [eventId],
  );
}

/** The scenario of this name; undefined when the event has none. */
export async function loadScenario(sql: Sql, eventId: string, name: string): Promise<Scenario | undefined> {
  const [scenario] = await sql.query<Scenario>(
    'select name, awards from service.scenarios where event_id = $1 and name = $2',
    [eventId, name],
  );
  return scenario;
}

/** Saves scenarios, each in the place of one of its name. */
export async function saveScenarios(tx: Sql, eventId: string, scenarios: readonly Scenario[]): Promise<void> {
  // A feed record with the same content must have the same text.
  const sorted = (awards: readonly ScenarioAward[]) =>
    awards.toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
  await tx.query(
    `insert into service.scenarios (event_id, name, awards)
     select $1, name, awards from unnest($2::text[], $3::jsonb[]) as given (name, awards)
     on conflict (event_id, name) do update set awards = excluded.awards`,
    [eventId, scenarios.map(({ name }) => name), scenarios.map(({ awards }) => JSON.stringify(sorted(awards)))],
  );
}

/** Removes the awards to these bids from all scenarios. Returns the scenarios that had some, with those alone. */
export async function removeAwards(
  tx: Sql,
  eventId: string,
  bids: readonly { readonly lotId: string; readonly supplierId: string }[],
): Promise<Scenario[]> {
  const fallen = new Set(bids.map(keyOf));
  const touched = (await loadScenarios(tx, eventId)).filter(({ awards }) =>
    awards.some((award) => fallen.has(keyOf(award))),
  );
  const only = (isFallen: boolean) =>
    touched.map(({ name, awards }) => ({
      name,
      awards: awards.filter((award) => fallen.has(keyOf(award)) === isFallen),
    }));
  await saveScenarios(tx, eventId, only(false));
  return only(true);
}

function keyOf({ lotId, supplierId }: { lotId: string; supplierId: string }): string {
  return `${lotId} ${supplierId}`;
}
