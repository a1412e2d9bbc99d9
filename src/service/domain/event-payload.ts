/**
 * The create payload as a whole: what is wrong with it beyond its schema, what of it can be said of a part alone, and how
 * an event that exists reads as one. Templates and updates are that payload with some members replaced. Source:
 * decisions, "Jobs".
 */

import { isActiveCurrency, unknownCurrency } from '#contract/currency.ts';
import type { Issue } from '#contract/issue.ts';
import {
  type CreateSourcingEventPayload,
  createSourcingEventPayload,
  type EventChanges,
} from '#contract/sourcing-event.ts';
import { checkBidSheet } from './bid-sheet.ts';
import { repeated } from './issue.ts';
import { checkQuestions } from './rfi.ts';
import { roundFault } from './rounds.ts';
import type { Cells, Question, SourcingEvent } from './sourcing-event.ts';
import { emailKey } from './supplier-change.ts';

/**
 * Everything wrong with a payload that its schema cannot see, with the payload's paths. `given`: the members to look at
 * beside the sheet, where the others were taken over from an event that lives by its own rules.
 */
export function checkEventPayload(payload: CreateSourcingEventPayload, given: EventChanges = payload): Issue[] {
  return [
    ...checkBidSheet(payload),
    ...checkCurrencies(given),
    ...checkRounds(given.rounds ?? []),
    ...checkQuestions(given.questions ?? []),
    ...repeated(given.sourcing_requests ?? [], (index) => `sourcing_requests[${index}]`, 'stands twice'),
    ...(given.suppliers ?? []).flatMap(({ contacts = [] }, index) =>
      repeated(contacts.map(emailKey), (at) => `suppliers[${index}].contacts[${at}]`, 'stands twice'),
    ),
  ];
}

/** What can be said of some members of a payload alone, before the event is known that has the others. */
export function checkEventChanges(changes: EventChanges): Issue[] {
  const { columns, column_roles: roles = {}, lots = [], global_values: globals = [] } = changes.bid_sheet ?? {};
  const currenciesGiven = changes.primary_currency !== undefined && changes.secondary_currencies !== undefined;
  const seen = (values: typeof globals): typeof globals => {
    if (columns === undefined) return [];
    return currenciesGiven ? values : values.map(({ column, value }) => ({ column, value }));
  };
  const { primary_cost_calculation: cost, bid_sheet: _sheet, ...rest } = changes;
  return checkEventPayload(
    mergePayload(createSourcingEventPayload.parse({ name: '-' }), {
      ...rest,
      ...(columns === undefined || cost === undefined ? {} : { primary_cost_calculation: cost }),
      // A currency that is nobody's, where the event's is not known.
      primary_currency: changes.primary_currency ?? '',
      bid_sheet: {
        columns: columns ?? [],
        column_roles: columns === undefined ? {} : roles,
        lots: lots.map((lot) => ({ ...lot, values: seen(lot.values) })),
        global_values: seen(globals),
      },
    }),
    changes,
  );
}

/**
 * The schema has checked what a client sends. A template may be older than the rule that its currencies are active codes
 * of ISO 4217.
 */
function checkCurrencies({ primary_currency, secondary_currencies = [], questions = [] }: EventChanges): Issue[] {
  const named = [
    { code: primary_currency, path: 'primary_currency' },
    ...secondary_currencies.map(({ code }, index) => ({ code, path: `secondary_currencies[${index}].code` })),
    ...questions.map(({ currency }, index) => ({ code: currency, path: `questions[${index}].currency` })),
  ];
  return named.flatMap(({ code, path }) =>
    code === undefined || isActiveCurrency(code) ? [] : [{ path, message: unknownCurrency }],
  );
}

function checkRounds(rounds: CreateSourcingEventPayload['rounds']): Issue[] {
  const times = rounds.map(({ starts = null, ends = null }) => ({ starts, ends }));
  return times.flatMap((round, index) => {
    const fault = roundFault(times.slice(0, index), round);
    return fault ? [{ path: `rounds[${index}].${fault.path}`, message: fault.message }] : [];
  });
}

/** The payload with these members in place of its own, inside `bid_sheet` and `settings`, too. */
export function mergePayload(payload: CreateSourcingEventPayload, changes: EventChanges): CreateSourcingEventPayload {
  return {
    ...payload,
    ...changes,
    bid_sheet: { ...payload.bid_sheet, ...changes.bid_sheet },
    settings: { ...payload.settings, ...changes.settings },
  } as CreateSourcingEventPayload;
}

/** What is invited of each supplier: these contacts' e-mail keys, or all contacts where a supplier stands with null. */
export type InvitedContacts = ReadonlyMap<string, readonly string[] | null>;

/** The payload that would create this event. Contacts that were invited and are gone since are left out. */
export function payloadOf(
  event: SourcingEvent,
  questions: readonly Question[],
  invited: InvitedContacts,
): CreateSourcingEventPayload {
  return {
    name: event.name,
    description: event.description,
    ...(event.referenceId === null ? {} : { reference_id: event.referenceId }),
    event_type: event.type as CreateSourcingEventPayload['event_type'],
    primary_currency: event.primaryCurrency,
    secondary_currencies: [...event.secondaryCurrencies],
    tags: [...event.tags],
    ...(event.category === null ? {} : { category: event.category }),
    ...(event.eventContact === null ? {} : { event_contact: event.eventContact }),
    suppliers: event.invitations.map(({ supplierId, externalId, contacts }) => ({
      external_id: externalId,
      ...(invited.get(supplierId) ? { contacts: contacts.map(({ email }) => email) } : {}),
    })),
    rounds: event.rounds.map(({ starts, ends }) => ({
      ...(starts === null ? {} : { starts }),
      ...(ends === null ? {} : { ends }),
    })),
    questions: questions.map(({ id, parentId, modified: _modified, ...definition }) => ({
      ...definition,
      uuid: id,
      ...(parentId === null ? {} : { parent_question_uuid: parentId }),
    })),
    sourcing_requests: [...event.sourcingRequests],
    ...(event.primaryCostCalculation === null ? {} : { primary_cost_calculation: event.primaryCostCalculation }),
    bid_sheet: {
      column_roles: event.columnRoles,
      columns: [...event.columns],
      lots: event.lots.map(({ name, values, sourcingRequest }) => ({
        name,
        values: valuesOf(values),
        ...(sourcingRequest === null ? {} : { sourcing_request: sourcingRequest }),
      })),
      global_values: valuesOf(event.globalValues),
    },
    settings: {
      is_test: event.isTest,
      is_template: event.isTemplate,
      close_after_last_round: event.closeAfterLastRound,
    },
  };
}

type Values = CreateSourcingEventPayload['bid_sheet']['global_values'];

function valuesOf(cells: Cells): Values {
  return [...cells].map(([column, cell]) => (typeof cell === 'string' ? { column, value: cell } : { column, ...cell }));
}

/** The values of a lot or of the event by column: the order in which a payload lists them says nothing. */
export function cellsOfValues(values: Values): Cells {
  return new Map(values.map(({ column, value, currency }) => [column, currency ? { value, currency } : value]));
}

/**
 * The payload of an event made from a template: the template's, with the overrides in place of its members. It is no
 * template itself unless an override says so, and its questions are its own, under new ids in the same hierarchy.
 */
export function payloadFromTemplate(
  template: CreateSourcingEventPayload,
  overrides: EventChanges,
  newId: () => string,
): CreateSourcingEventPayload {
  const ids = new Map(template.questions.map(({ uuid }) => [uuid, newId()]));
  const own = template.questions.map((question) => {
    const { uuid, parent_question_uuid: parent, ...definition } = question;
    const [id, parentId] = [ids.get(uuid), parent && ids.get(parent)];
    return { ...definition, ...(id && { uuid: id }), ...(parentId && { parent_question_uuid: parentId }) };
  });
  const settings = { ...template.settings, is_template: false };
  return mergePayload({ ...template, questions: own, settings }, overrides);
}
