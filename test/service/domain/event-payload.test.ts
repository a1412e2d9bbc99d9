import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type CreateSourcingEventPayload, createSourcingEventPayload, eventChanges } from '#contract/sourcing-event.ts';
import {
  checkEventChanges,
  checkEventPayload,
  mergePayload,
  payloadFromTemplate,
  payloadOf,
} from '#service/domain/event-payload.ts';
import type { Question, SourcingEvent } from '#service/domain/sourcing-event.ts';
import { decimalText, questionLists, someText } from '../../harness/rfi.ts';
import { created, sampleEvent, sampleInvitation } from './sample-event.ts';

const payload = (members: object) => createSourcingEventPayload.parse({ name: 'Chairs', ...members });
const paths = (members: object) => checkEventPayload(payload(members)).map(({ path }) => path);

describe('rounds', () => {
  const day = (number: number) => `2031-01-0${number}T00:00:00.000000Z`;

  test.each<[string, object[]]>([
    [
      'one after the other',
      [
        { starts: day(1), ends: day(2) },
        { starts: day(3), ends: day(4) },
      ],
    ],
    [
      'that touch',
      [
        { starts: day(1), ends: day(2) },
        { starts: day(2), ends: day(3) },
      ],
    ],
    ['of which the later begin when the one before has closed', [{ ends: day(2) }, { ends: day(3) }, {}]],
    ['of which the earlier close when the next begins', [{ starts: day(1) }, { starts: day(2) }]],
  ])('%s are right', (_what, rounds) => {
    expect(paths({ rounds })).toEqual([]);
  });

  test.each<[string, object[], string]>([
    ['that overlap by a moment', [{ ends: day(2) }, { starts: '2031-01-01T23:59:59.999999Z' }], 'rounds[1].starts'],
    ['in the wrong order', [{ starts: day(3) }, { starts: day(1), ends: day(2) }], 'rounds[1].starts'],
    ['of which one ends before the one before it', [{ ends: day(3) }, {}, { ends: day(2) }], 'rounds[2].ends'],
    ['of which one has no time left', [{ ends: day(3) }, { ends: day(3) }], 'rounds[1].ends'],
  ])('%s are refused', (_what, rounds, path) => {
    expect(paths({ rounds })).toEqual([path]);
  });
});

const uuids = fc.uuid();
const names = fc.uniqueArray(someText(1, 20), { minLength: 1, maxLength: 6 });

/** Payloads that are valid by construction. */
const payloads: fc.Arbitrary<CreateSourcingEventPayload> = fc
  .tuple(names, names, questionLists(4), fc.uniqueArray(uuids, { maxLength: 3 }), fc.boolean())
  .chain(([columnNames, lotNames, questions, requests, withCurrency]) => {
    const columns = columnNames.map((name, index) => ({
      name,
      column_type: 'INPUT',
      input_by: index === 0 ? 'SUPPLIER_INPUT' : 'BUYER_INPUT',
      input_type: 'CURRENCY',
      allow_negative: true,
      scope: index % 2 === 0 ? 'LOT' : 'EVENT',
    }));
    const valuesOf = (scope: string) =>
      fc.tuple(
        ...columns
          .filter((column) => column.input_by === 'BUYER_INPUT' && column.scope === scope)
          .map(({ name }) =>
            decimalText(2).map((value) => ({ column: name, value, ...(withCurrency && { currency: 'USD' }) })),
          ),
      );
    return fc
      .tuple(fc.tuple(...lotNames.map(() => valuesOf('LOT'))), valuesOf('EVENT'), fc.boolean())
      .map(([values, global_values, is_template]) =>
        payload({
          primary_currency: 'CHF',
          secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }],
          tags: [{ name: 'Region', value: 'EMEA' }],
          suppliers: [{ external_id: 'S1', contacts: ['a@s.example'] }],
          rounds: [{ ends: '2031-01-01' }, { ends: '2031-01-02' }],
          sourcing_requests: requests,
          questions,
          bid_sheet: {
            columns,
            column_roles: { volume: columnNames[0] },
            lots: lotNames.map((name, index) => ({ name, values: values[index] })),
            global_values,
          },
          settings: { is_template },
        }),
      );
  });

/** A part of a payload, as an update or a template's override is. */
const parts = payloads.chain((full) =>
  fc
    .tuple(
      fc.subarray(Object.keys(full)),
      fc.subarray(Object.keys(full.bid_sheet)),
      fc.subarray(Object.keys(full.settings)),
    )
    .map(([members, sheet, settings]) => {
      const pick = (from: object, keys: readonly string[]) =>
        Object.fromEntries(Object.entries(from).filter(([key]) => keys.includes(key)));
      const changes = pick(full, members);
      if (changes['bid_sheet']) changes['bid_sheet'] = pick(full.bid_sheet, sheet);
      if (changes['settings']) changes['settings'] = pick(full.settings, settings);
      return { full, changes: eventChanges.parse(changes) };
    }),
);

test('a part of a valid payload is never refused alone, and merged into the payload it changes nothing', () => {
  fc.assert(
    fc.property(parts, ({ full, changes }) => {
      expect(checkEventPayload(full)).toEqual([]);
      expect(checkEventChanges(changes)).toEqual([]);
      expect(mergePayload(full, changes)).toEqual(full);
    }),
  );
});

/** The event of a payload, as it is loaded from the database. */
function eventOf(made: CreateSourcingEventPayload): { event: SourcingEvent; questions: Question[] } {
  const cells = (values: CreateSourcingEventPayload['bid_sheet']['global_values']) =>
    new Map(values.map(({ column, value, currency }) => [column, currency ? { value, currency } : value]));
  return {
    event: sampleEvent({
      name: made.name,
      description: made.description,
      referenceId: made.reference_id ?? null,
      type: made.event_type,
      primaryCurrency: made.primary_currency,
      secondaryCurrencies: made.secondary_currencies,
      tags: made.tags,
      category: made.category ?? null,
      columns: made.bid_sheet.columns,
      columnRoles: made.bid_sheet.column_roles,
      globalValues: cells(made.bid_sheet.global_values),
      primaryCostCalculation: made.primary_cost_calculation ?? null,
      isTest: made.settings.is_test,
      isTemplate: made.settings.is_template,
      closeAfterLastRound: made.settings.close_after_last_round,
      sourcingRequests: made.sourcing_requests,
      lots: made.bid_sheet.lots.map(({ name, values }) => ({
        id: name,
        name,
        values: cells(values),
        sourcingRequest: null,
      })),
      rounds: made.rounds.map(({ starts = null, ends = null }, index) => ({
        number: index + 1,
        starts,
        ends,
        status: 'PENDING',
        awardedCost: null,
        awardedLotCount: null,
        reopened: false,
      })),
      invitations: made.suppliers.map(({ external_id: externalId, contacts = [] }) =>
        sampleInvitation(externalId, {
          externalId,
          contacts: contacts.map((email) => ({ id: email, name: email, email })),
        }),
      ),
    }),
    questions: made.questions.map(({ uuid = '', parent_question_uuid: parent, ...definition }) => ({
      ...definition,
      id: uuid,
      parentId: parent ?? null,
      modified: created,
    })),
  };
}

const withIds = (made: CreateSourcingEventPayload) => ({
  ...made,
  questions: made.questions.map((question, index) => ({ ...question, uuid: question.uuid ?? `q${index}` })),
});

test('the payload of an event is the payload that created it', () => {
  fc.assert(
    fc.property(payloads.map(withIds), (made) => {
      const { event, questions } = eventOf(made);
      expect(payloadOf(event, questions, new Map([['S1', ['a@s.example']]]))).toEqual(made);
    }),
  );
});

test('a supplier invited with all contacts stays so, also with contacts that were added later', () => {
  const { event } = eventOf(payload({ suppliers: [{ external_id: 'S1', contacts: ['a@s.example'] }] }));
  expect(payloadOf(event, [], new Map([['S1', null]])).suppliers).toEqual([{ external_id: 'S1' }]);
  expect(payloadOf(event, [], new Map([['S1', ['a@s.example', 'gone@s.example']]])).suppliers).toEqual([
    { external_id: 'S1', contacts: ['a@s.example'] },
  ]);
});

test('questions from a template have new ids in the same hierarchy, and the new event is no template', () => {
  fc.assert(
    fc.property(payloads.map(withIds), (template) => {
      let number = 0;
      const made = payloadFromTemplate(template, {}, () => {
        number += 1;
        return `new-${number}`;
      });
      expect(made).toEqual({
        ...template,
        questions: made.questions,
        settings: { ...template.settings, is_template: false },
      });
      const place = (list: typeof made.questions, id: string | undefined) => list.findIndex(({ uuid }) => uuid === id);
      for (const [index, question] of made.questions.entries()) {
        const before = template.questions[index];
        expect(question.uuid).toBe(`new-${index + 1}`);
        expect(place(made.questions, question.parent_question_uuid)).toBe(
          place(template.questions, before?.parent_question_uuid),
        );
        expect({ ...question, uuid: '', parent_question_uuid: '' }).toEqual({
          ...before,
          uuid: '',
          parent_question_uuid: '',
        });
      }
    }),
  );
});
