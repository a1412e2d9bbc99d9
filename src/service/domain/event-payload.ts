/**
 * The create payload: its faults that the schema cannot find, the faults that a part of it shows alone, and the payload
 * of an event that exists. A template's event and an update are such a payload with some members replaced. Source:
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
 * Returns all faults of a payload that its schema cannot find, with the payload's paths. `given` holds the members to
 * check besides the sheet; the other members come from an existing event and are not checked again.
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

/** Returns the faults of some members of a payload that can be found without the event that has the other members. */
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
      // The event's currency is not known: an empty code differs from every currency.
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

/** The payload with these members instead of its own, also inside `bid_sheet` and `settings`. */
export function mergePayload(payload: CreateSourcingEventPayload, changes: EventChanges): CreateSourcingEventPayload {
  return {
    ...payload,
    ...changes,
    bid_sheet: { ...payload.bid_sheet, ...changes.bid_sheet },
    settings: { ...payload.settings, ...changes.settings },
  } as CreateSourcingEventPayload;
}

/** The invited contacts of each supplier, as e-mail keys; null: all contacts of the supplier. */
export type InvitedContacts = ReadonlyMap<string, readonly string[] | null>;

/** The payload that would create this event, without invited contacts that have been deleted since. */
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

/** The values of a lot or of the event by column: their order in a payload has no meaning. */
export function cellsOfValues(values: Values): Cells {
  return new Map(values.map(({ column, value, currency }) => [column, currency ? { value, currency } : value]));
}

/**
 * The payload of an event made from a template: the template's payload with the overrides instead of its members. The
 * event is no template unless an override says so. Its questions have new ids, in the same hierarchy.
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
