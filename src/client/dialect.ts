/**
 * How jobs are said to a service. Callers speak the contract; a source whose `dialect` is `public` gets the same in the
 * names that the pages of a public service of this kind show. Pure. Example of a new event:
 *
 * | contract                                          | public                                            |
 * |---------------------------------------------------|---------------------------------------------------|
 * | `event_contact: {name: 'Ann'}`                    | `business_contact: {name: 'Ann'}`                 |
 * | `rounds: [{starts, ends}]`                        | `schedule: [{starts, ends}]`                      |
 * | `primary_cost_calculation: '[Unit Price] * [No]'` | `primary_cost_calculation: 'Unit Price * No'`     |
 * | `event_type: 'RFQ'`                               | `event_type: 'rfq'`                               |
 * | `template: <an event>`                            | `template_sourcing_event_id: <an event>`          |
 * | `column_roles: {lot_identifier, volume}`          | `column_roles: {lot_identifier}`                  |
 * | nothing                                           | `created_by: 'buyer@example.com'`, from settings  |
 *
 * Other members are sent as they are. A sourcing request has hardly a member in common: its caller makes it in the
 * public form. The files of a job are only named in it, and uploaded to the URLs that the job shows then.
 */
import { type JobType, jobPathsOf } from '#contract/job.ts';

export const dialects = ['contract', 'public'] as const;

/** The dialect of a service; `user` is the e-mail of the service's user in whose name something is made. */
export type Dialect = { readonly name: 'contract' } | { readonly name: 'public'; readonly user: string };

type Members = Readonly<Record<string, unknown>>;

export interface SaidJob {
  /** The last part of the path. Where there are several, the service has one of them; the first is the likely one. */
  readonly paths: readonly string[];
  readonly body: Members;
}

/** What is sent of a job. The payload is the contract's; what it cannot say in the dialect stays as it is. */
export function sayJob(dialect: Dialect, type: JobType, payload: Members): SaidJob {
  const [path = '', ...otherPaths] = jobPathsOf(type);
  if (dialect.name === 'contract') return { paths: [path], body: payload };
  const { user } = dialect;
  switch (type) {
    case 'CREATE_SOURCING_EVENT':
    case 'CREATE_SOURCING_EVENT_FROM_TEMPLATE':
      return { paths: [path], body: { created_by: user, ...eventOf(payload) } };
    case 'UPDATE_SOURCING_EVENT':
      // The public pages name both.
      return { paths: [...otherPaths, path], body: eventOf(payload) };
    case 'ATTACH_FILES_TO_SOURCING_EVENT':
      return { paths: [path], body: { created_by: user, ...payload, files: namesOf(payload['files']) } };
    case 'ATTACH_FILES_TO_SOURCING_REQUEST':
      return { paths: [path], body: { requester: user, ...payload, files: namesOf(payload['files']) } };
    case 'CREATE_SOURCING_REQUEST':
    case 'GENERATE_FILE_DOWNLOAD_LINKS':
      return { paths: [path], body: payload };
  }
}

function eventOf({ event_contact, rounds, template, ...others }: Members): Members {
  const { event_type: type, primary_cost_calculation: formula, bid_sheet: sheet } = others;
  return {
    ...others,
    ...(event_contact === undefined ? {} : { business_contact: event_contact }),
    ...(rounds === undefined ? {} : { schedule: rounds }),
    ...(template === undefined ? {} : { template_sourcing_event_id: template }),
    ...(type === 'RFQ' ? { event_type: 'rfq' } : {}),
    ...(typeof formula === 'string' ? { primary_cost_calculation: bareFormula(formula).text } : {}),
    ...(isMembers(sheet) ? { bid_sheet: sheetOf(sheet) } : {}),
  };
}

function sheetOf({ column_roles: roles, ...sheet }: Members): Members {
  if (!isMembers(roles)) return sheet;
  const shown = Object.entries(roles).filter(([role]) => shownRoles.has(role));
  return { ...sheet, column_roles: Object.fromEntries(shown) };
}

/** The roles of columns that the pages show. */
export const shownRoles: ReadonlySet<string> = new Set(['lot_identifier']);

function namesOf(files: unknown): unknown {
  return Array.isArray(files) ? files.map((file: unknown) => (isMembers(file) ? file['file_name'] : file)) : files;
}

const functions: ReadonlySet<string> = new Set(['IF', 'MIN', 'MAX', 'SUM', 'ROUND', 'ABS']);
/** Words of letters, digits and `_` with single spaces between them: nothing that could be read as an operator. */
const bareName = /^[\p{L}_][\p{L}\p{N}_]*( [\p{L}\p{N}_]+)*$/u;

/**
 * The formula without the brackets around names: `[Unit Price] * [No]` becomes `Unit Price * No`. `ambiguous` has the
 * names that would then be read as something else, like `Price/kg` or `MIN`; these keep their brackets.
 */
export function bareFormula(formula: string): { readonly text: string; readonly ambiguous: readonly string[] } {
  const ambiguous: string[] = [];
  const text = formula.replaceAll(/\[((?:[^\]]|\]\]){1,500})\]/g, (bracketed, inner: string) => {
    const name = inner.replaceAll(']]', ']');
    if (bareName.test(name) && !functions.has(name.toUpperCase())) return name;
    ambiguous.push(name);
    return bracketed;
  });
  return { text, ambiguous };
}

function isMembers(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
