/** The names of sources and flows, and what refers to them. */
import { throwIssues } from '#platform/errors.ts';
import type { BridgeSettings } from './settings.ts';

/**
 * Throws AppError `invalid` for what the schema cannot see: a source that is not configured, a name that is used twice.
 */
export function checkNames({ sources, flows }: Pick<BridgeSettings, 'sources' | 'flows'>): void {
  const issues = flows.flatMap((flow, index) =>
    sources.some(({ name }) => name === flow.source)
      ? []
      : [
          {
            path: `bridge.flows[${index}].source`,
            message: `names the source "${flow.source}", which is not configured`,
          },
        ],
  );
  for (const [what, names] of [
    ['sources', sources.map(({ name }) => name)],
    ['flows', flows.map(({ name }) => name)],
  ] as const)
    for (const [index, name] of names.entries())
      if (names.indexOf(name) !== index)
        issues.push({ path: `bridge.${what}[${index}].name`, message: `is "${name}", a name that is used twice` });
  throwIssues(issues, ({ path, message }) => `The configuration is not valid: ${path} ${message}.`);
}
