/** The names of sources, flows and intakes, what refers to them, and who owns which suppliers. */
import { throwIssues } from '#platform/errors.ts';
import type { BridgeSettings } from './settings/settings.ts';

type Named = Pick<BridgeSettings, 'sources' | 'flows'> & Partial<Pick<BridgeSettings, 'intakes'>>;

/**
 * Throws AppError `invalid` for what the schema cannot see: a source that is not configured, a name that is used twice,
 * two intakes that own the same suppliers.
 */
export function checkNames({ sources, flows, intakes = [] }: Named): void {
  const users = [
    ...flows.map(({ name, source }, index) => ({ path: `bridge.flows[${index}]`, name, source })),
    ...intakes.map(({ name, source }, index) => ({ path: `bridge.intakes[${index}]`, name, source })),
  ];
  const configured = new Set(sources.map(({ name }) => name));
  const issues = users.flatMap(({ path, source }) =>
    configured.has(source)
      ? []
      : [{ path: `${path}.source`, message: `names the source "${source}", which is not configured` }],
  );
  const named = sources.map(({ name }, index) => ({ path: `bridge.sources[${index}]`, name }));
  // A command names a flow or an intake by its name alone.
  for (const all of [named, users]) {
    const seen = new Set<string>();
    for (const { name, path } of all) {
      if (seen.has(name)) issues.push({ path: `${path}.name`, message: `is "${name}", a name that is used twice` });
      seen.add(name);
    }
  }
  issues.push(...overlaps(intakes));
  throwIssues(issues, ({ path, message }) => `The configuration is not valid: ${path} ${message}.`);
}

/**
 * Two intakes of one source need different prefixes or filters: else both would write the same suppliers. Two that read
 * requisitions of different ERPs need none.
 */
function overlaps(intakes: BridgeSettings['intakes']): { path: string; message: string }[] {
  return intakes.flatMap((intake, index) => {
    const other = intakes.slice(0, index).find((each) => ownsTheSame(each, intake));
    if (!other) return [];
    const message =
      intake.stream === 'supplier'
        ? `and "${other.name}" would own the same suppliers of "${intake.source}"; give each a prefix or a filter (only)`
        : `and "${other.name}" would make the same requisitions twice at "${intake.source}"; give each a filter (only)`;
    return [{ path: `bridge.intakes[${index}]`, message }];
  });
}

type Intake = BridgeSettings['intakes'][number];

function ownsTheSame(a: Intake, b: Intake): boolean {
  const isSame =
    a.source === b.source &&
    a.stream === b.stream &&
    (a.stream === 'supplier' ||
      JSON.stringify([a.connector, a.settings]) === JSON.stringify([b.connector, b.settings]));
  return (
    isSame &&
    a.prefix === b.prefix &&
    (!isFiltered(a) || !isFiltered(b) || JSON.stringify(a.only) === JSON.stringify(b.only))
  );
}

function isFiltered({ only }: Intake): boolean {
  return Object.keys(only.fields).length > 0 || only.external_id !== undefined;
}
