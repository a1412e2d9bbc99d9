/** A source may name currencies that ISO 4217 does not have: the bridge reads them, and names them as they are. */
import { expect, test } from 'vitest';
import { makeAwardDocument } from '#bridge/documents/award-document.ts';
import { makeQuotationDocument } from '#bridge/documents/quotation-document.ts';
import { makeRfiAnswersDocument } from '#bridge/documents/rfi-answers-document.ts';
import { makeSourcingEventDocument } from '#bridge/documents/sourcing-event-document.ts';
import { documentSchemas } from '#connector/documents.ts';
import { feeds } from '#contract/feed.ts';
import { eventRecord, idOf, lotAwardRecord } from '../parts.ts';
import { answerRecord, bidRecord, documentOf, inFlow, questionObject, standing } from './records.ts';

const [event, supplier, question] = [idOf(0xe1), idOf(11), idOf(31)];
const ids = { eventId: event, supplierId: supplier, supplier: undefined };
const columns = { quantity: undefined, unitPrice: undefined };
const values = [{ column_name: 'Price', value: '-3', currency: 'XXQ' }];

test.each(['XXQ', 'XXX', 'XTS', 'ZZZ', 'DEM'])(
  'records that name the currency %s become documents that name it as it is',
  (code) => {
    const named = (list: typeof values) => list.map((value) => ({ ...value, currency: code }));
    const records = {
      'sourcing-events': eventRecord(event, [supplier], {
        primary_currency: code,
        secondary_currencies: [{ code: 'XXQ', exchange_rate: '2' }],
      }),
      'latest-bids': bidRecord(idOf(21), event, supplier, '-3', { bid_sheet_values: named(values) }),
      awards: lotAwardRecord(idOf(22), event, [{ supplier, cost: '-3' }]),
      'rfi-responses': answerRecord(1, event, supplier, question, { value: '5', currency: code }),
    };
    for (const [feed, record] of Object.entries(records))
      expect(feeds[feed as keyof typeof records].essentials.safeParse(record).error).toBeUndefined();
    const inEvent = inFlow({ record: records['sourcing-events'] });

    const ofEvent = documentOf(makeSourcingEventDocument({ eventId: event, event: inEvent }));
    expect(ofEvent).toMatchObject({ currency: code, exchange_rates: [{ code: 'XXQ', exchange_rate: '2' }] });

    const bids = standing([records['latest-bids']]);
    const quotation = documentOf(makeQuotationDocument({ ...ids, event: inEvent, bids, columns }));
    expect(quotation).toMatchObject({
      currency: code,
      lines: [{ bids: [{ value: '-3' }], values: [{ column: 'Price', value: '-3', currency: code }] }],
    });

    const award = documentOf(
      makeAwardDocument({ ...ids, event: inEvent, awards: standing([records.awards]), columns }),
    );
    expect(award).toMatchObject({ currency: code, total_cost: '-3' });

    const answers = documentOf(
      makeRfiAnswersDocument({
        ...ids,
        event: inEvent,
        responses: standing([records['rfi-responses']]),
        questions: new Map([[question, questionObject(question, event, '1')]]),
      }),
    );
    expect(answers).toMatchObject({ lines: [{ value: '5', currency: code }] });

    for (const document of [ofEvent, quotation, award, answers])
      expect(documentSchemas[document.kind].safeParse(document).error).toBeUndefined();
  },
);
