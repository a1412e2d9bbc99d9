/** Feed records of about 1 KB, made from their numbers: one each millisecond. */

/** Of the record with this number. */
export function stampOf(number: number): string {
  return `${new Date(Date.UTC(2026, 0, 1) + number).toISOString().slice(0, -1)}000Z`;
}

const idOf = (group: string, number: number) => `00000000-0000-4000-${group}-${number.toString(16).padStart(12, '0')}`;

const lotsOfEvent = 50;
const suppliersOfEvent = 5;
/** After so many events their suppliers are the same ones again. */
const eventsOfOtherSuppliers = 1_000;

const supplierOf = (event: number, index: number) =>
  idOf('b000', (event % eventsOfOtherSuppliers) * suppliersOfEvent + index);

/** The JSON of the records from one number to the one before another. */
export function bodiesOf(feed: 'awards' | 'sourcing-events', from: number, to: number): string[] {
  const make = feed === 'awards' ? awardOf : eventOf;
  return Array.from({ length: to - from }, (_, index) => JSON.stringify(make(from + index)));
}

/** One lot's award to one of the event's suppliers, with a bid sheet of six columns. */
function awardOf(number: number): object {
  const event = Math.floor(number / lotsOfEvent);
  return {
    id: idOf('8000', number),
    sourcing_event: idOf('9000', event),
    sourcing_request: idOf('a000', event),
    lot_name: `Lot ${number % lotsOfEvent}: forged steel flange, DN ${50 + (number % 7) * 25}, "EN 1092-1", type 11`,
    scenario_name: 'Best price',
    awards: [
      {
        supplier: supplierOf(event, number % suppliersOfEvent),
        share_awarded: '1',
        cost: `${(number % 90_000) + 10_000}.67`,
        savings: '345.67',
        historic_cost: '12691.34',
        bid_sheet_values: ['Volume', 'Unit price', 'Lead time in days', 'Incoterm', 'Country of origin', 'Remarks'].map(
          (column_name, column) => ({
            column_name,
            column_type: 'INPUT',
            value: column === 5 ? 'Packed in crates of 20, certificate 3.1' : `${(number * 7919 + column) % 10_000}`,
          }),
        ),
      },
    ],
    modified: stampOf(number),
  };
}

/** An event with three suppliers and a bid sheet of six columns. */
function eventOf(number: number): object {
  return {
    id: idOf('9000', number),
    reference_id: `RFQ-${number}`,
    name: `Forged steel flanges ${number}`,
    type: 'RFQ',
    status: number % 3 === 0 ? 'OPEN' : 'CLOSED',
    created: stampOf(number - 86_400_000),
    modified: stampOf(number),
    primary_currency: 'EUR',
    secondary_currencies: [{ code: 'USD', exchange_rate: '1.08' }],
    columns: ['Volume', 'Unit price', 'Lead time', 'Incoterm', 'Origin', 'Remarks'].map((name) => ({ name })),
    lot_count: 50,
    is_test: false,
    tags: [{ name: 'Region', value: 'EMEA' }],
    suppliers: Array.from({ length: 3 }, (_, index) => ({
      id: supplierOf(number, index),
      name: `Supplier ${number % eventsOfOtherSuppliers}-${index}`,
      external_id: `SUP-${number % eventsOfOtherSuppliers}-${index}`,
      invite_count: 1,
      accepted: true,
      participated: true,
    })),
  };
}
