/**
 * What the settings of an intake of requisitions want of the service, and cannot be said in the dialect of its source.
 * The configuration is refused then, before anything is sent. Pure.
 */
import { bareFormula, type Dialect, shownRoles } from '#client/dialect.ts';
import { eventChanges } from '#contract/sourcing-event.ts';
import { defaultMembers } from './default-bid-sheet.ts';
import type { IntakeSettings } from './intake-settings.ts';
import type { IntakeFault } from './requisition-settings.ts';

const withPath = ['mapping', 'event', 'with'];

interface SourceOfIntake {
  readonly name: string;
  readonly dialect: Dialect['name'];
  readonly user_email?: string | undefined;
}

/** The paths are those of the intake's settings. */
export function faultsOfDialect(
  intake: Pick<IntakeSettings, 'stream' | 'make' | 'mapping'>,
  source: SourceOfIntake,
): IntakeFault[] {
  if (intake.stream !== 'requisition') return [];
  return source.dialect === 'public' ? faultsInPublic(intake, source) : faultsInContract(intake, source);
}

/** The contract's members are known: a typing error is found here. */
function faultsInContract({ mapping }: Pick<IntakeSettings, 'mapping'>, { name }: SourceOfIntake): IntakeFault[] {
  const issues = eventChanges.safeParse(mapping.event?.with ?? {}).error?.issues ?? [];
  return [
    ...issues.map(({ path, message }) => ({ path: [...withPath, ...path.map(String)], message })),
    ...(mapping.request
      ? [{ path: ['mapping', 'request'], message: `needs dialect: public of the source "${name}"` }]
      : []),
  ];
}

/** What the pages of the public service show is translated; other members of `with` are sent as they stand. */
function faultsInPublic(
  { make, mapping: { event, request } }: Pick<IntakeSettings, 'make' | 'mapping'>,
  { name, user_email: user }: SourceOfIntake,
): IntakeFault[] {
  const faults: IntakeFault[] = [];
  if (user === undefined)
    faults.push({
      path: ['source'],
      message: `"${name}" needs user_email: its dialect is public, where events and files name their user`,
    });
  if (make === 'request' && request === undefined)
    faults.push({ path: ['mapping', 'request'], message: 'must say what the items of a request have: item_fields' });
  const isGiven = { category: event?.category, currency: event?.currency };
  for (const [member, rule] of Object.entries(isGiven))
    if (rule !== undefined)
      faults.push({
        path: ['mapping', 'event', member],
        message: 'is not shown by the public service: if it takes one, put it in mapping.event.with',
      });
  if ((event?.suppliers ?? []).length > 0)
    faults.push({
      path: ['mapping', 'event', 'suppliers'],
      message: 'are not shown by the public service: invite them there',
    });
  return [...faults, ...faultsOfMembers(event?.with ?? {})];
}

function faultsOfMembers(members: Readonly<Record<string, unknown>>): IntakeFault[] {
  const {
    primary_cost_calculation: formula = defaultMembers.primary_cost_calculation,
    rounds,
    event_type: type,
  } = members;
  const faults: IntakeFault[] = [];
  for (const column of typeof formula === 'string' ? bareFormula(formula).ambiguous : [])
    faults.push({
      path: [...withPath, 'primary_cost_calculation'],
      message: `names the column "${column}", which the public service could not tell from the formula without brackets: rename it`,
    });
  for (const [index, round] of (Array.isArray(rounds) ? (rounds as unknown[]) : []).entries())
    if (!hasBoth(round))
      faults.push({
        path: [...withPath, 'rounds', String(index)],
        message: 'must have starts and ends: dialect public',
      });
  if (type === 'DUTCH' || type === 'ENGLISH')
    faults.push({ path: [...withPath, 'event_type'], message: `${type} is not shown by the public service` });
  const roles = (members['bid_sheet'] as { column_roles?: object } | undefined)?.column_roles ?? {};
  for (const role of Object.keys(roles).filter((each) => !shownRoles.has(each)))
    faults.push({
      path: [...withPath, 'bid_sheet', 'column_roles', role],
      message: 'is not shown by the public service',
    });
  return faults;
}

function hasBoth(round: unknown): boolean {
  const { starts, ends } = (round ?? {}) as { starts?: unknown; ends?: unknown };
  return typeof starts === 'string' && typeof ends === 'string';
}
