/**
 * Rules 3, 4 and 5 of SupplierLotBid for random sequences of bids, partial bids, withdrawals, edits and buyer's values:
 * the feed shows what a model in plain numbers computes, and a record that did not change keeps its `modified`.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createEvent, createSuppliers, desk, readEvent, readWholeFeed } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
const suppliers = ['S1', 'S2'] as const;
const lots = ['A', 'B', 'C'] as const;
await createSuppliers(organisation, suppliers);

type Supplier = (typeof suppliers)[number];
type Lot = (typeof lots)[number];
type Values = Partial<Record<string, string>>;

const input = (name: string, inputBy: string, scope: string) => ({
  name,
  column_type: 'INPUT',
  input_by: inputBy,
  input_type: 'NUMBER',
  scope,
});
const columns = [
  input('Volume', 'BUYER_INPUT', 'LOT'),
  input('Index', 'BUYER_INPUT', 'EVENT'),
  input('Speed', 'SUPPLIER_INPUT', 'LOT'),
  input('Note', 'SUPPLIER_INPUT', 'LOT'),
  input('Freight', 'SUPPLIER_INPUT', 'EVENT'),
];

/** `100 / Speed * Volume + Freight + Index`. The values are chosen so that plain numbers are exact. */
function costOf(row: Values): string | undefined {
  const [speed, volume, freight, index] = ['Speed', 'Volume', 'Freight', 'Index'].map((name) => row[name]);
  if (speed === undefined || volume === undefined || freight === undefined || index === undefined) return undefined;
  return speed === '0' ? undefined : String((100 / Number(speed)) * Number(volume) + Number(freight) + Number(index));
}

interface ModelBid {
  values: Values | null;
  draft: Values | null;
  withdrawn: boolean;
}

/** Computes everything in a simple way, and all of it again after each step. */
class Model {
  round: 'ACTIVE' | 'CLOSED' = 'ACTIVE';
  reopened = false;
  readonly volumes: Partial<Record<Lot, string>> = { A: '10', B: '2' };
  index = '0';
  readonly globals: Record<Supplier, Values> = { S1: {}, S2: {} };
  readonly bids = new Map<string, ModelBid>();
  shown = new Map<string, object>();

  bidOf(supplier: Supplier, lot: Lot): ModelBid {
    return this.bids.get(`${supplier} ${lot}`) ?? { values: null, draft: null, withdrawn: false };
  }

  rowOf(lot: Lot, values: Values): Values {
    return { Index: this.index, ...(this.volumes[lot] ? { Volume: this.volumes[lot] } : {}), ...values };
  }

  /** Computes the feed after a domain event that updates it. */
  refresh(): void {
    const shown = new Map<string, object>();
    for (const [place, { values, withdrawn }] of this.bids) {
      const lot = place.slice(3) as Lot;
      if (values) {
        const row = this.rowOf(lot, values);
        shown.set(place, {
          lot_name: lot,
          bids: [{ value: costOf(row) }],
          bid_sheet_values: columns.flatMap(({ name }) =>
            row[name] === undefined ? [] : [{ column_name: name, value: row[name] }],
          ),
        });
      } else if (withdrawn) shown.set(place, { lot_name: lot, bids: [], bid_sheet_values: [] });
    }
    this.shown = shown;
  }
}

interface Step {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly body: object;
  /**
   * Changes the model. Returns false when the service must refuse the step, else whether it updates the feed, and the
   * incomplete lots.
   */
  readonly apply: (model: Model) => false | { updatesFeed: boolean; incomplete?: Lot[] };
}

type Submitted = Partial<Record<Lot, Values>>;

function touched(model: Model, supplier: Supplier, given: Submitted, global: Values): Lot[] {
  return lots.filter((lot) => {
    const bid = model.bidOf(supplier, lot);
    return given[lot] !== undefined || (Object.keys(global).length > 0 && (bid.values ?? bid.draft) !== null);
  });
}

/** Applies the supplier's entries; true when the bid is complete. */
function enter(model: Model, supplier: Supplier, lot: Lot, entered: Values): boolean {
  const bid = model.bidOf(supplier, lot);
  const values = { ...(bid.draft ?? bid.values), ...entered, ...model.globals[supplier] };
  const isComplete = costOf(model.rowOf(lot, values)) !== undefined;
  const next = isComplete ? { values, draft: null, withdrawn: false } : { ...bid, draft: values };
  model.bids.set(`${supplier} ${lot}`, next);
  return isComplete;
}

const bodyOf = (supplier: Supplier, given: Submitted, global: Values) => ({
  supplier,
  lots: Object.entries(given).map(([lot, values]) => ({ lot, values })),
  global,
});

const supplierOf = fc.constantFrom(...suppliers);
const lotOf = fc.constantFrom(...lots);
const speed = fc.constantFrom('0', '1', '2', '4', '5');
const note = fc.constantFrom('1', '2');
const valuesOf = fc.oneof(
  fc.record({ Speed: speed, Note: note }),
  fc.record({ Speed: speed, Note: note }, { requiredKeys: [] }),
);
const globalOf = fc.oneof(
  { weight: 1, arbitrary: fc.constant({}) },
  { weight: 1, arbitrary: fc.record({ Freight: fc.constantFrom('1', '7', '30') }) },
);
const givenOf = fc.dictionary(lotOf, valuesOf, { minKeys: 1, maxKeys: 3 });

const submissionOf = (supplier: Supplier, given: Submitted, global: Values): Step => ({
  name: 'bid',
  method: 'POST',
  path: '/bids',
  body: bodyOf(supplier, given, global),
  apply: (model) => {
    if (model.round !== 'ACTIVE') return false;
    Object.assign(model.globals[supplier], global);
    const lotsOf = touched(model, supplier, given, global);
    return { updatesFeed: true, incomplete: lotsOf.filter((lot) => !enter(model, supplier, lot, given[lot] ?? {})) };
  },
});

const submission = fc.tuple(supplierOf, givenOf, globalOf).map((entered) => submissionOf(...entered));

const edit = fc.tuple(supplierOf, givenOf, globalOf).map(
  ([supplier, given, global]): Step => ({
    name: 'edit',
    method: 'PATCH',
    path: '/bids',
    body: bodyOf(supplier, given, global),
    apply: (model) => {
      if (model.round !== 'CLOSED') return false;
      const kept = { bids: new Map(model.bids), globals: { ...model.globals[supplier] } };
      Object.assign(model.globals[supplier], global);
      const isPossible = touched(model, supplier, given, global).every((lot) => {
        const bid = model.bidOf(supplier, lot);
        const entered = { ...given[lot], ...global };
        if (!bid.values) return enter(model, supplier, lot, entered);
        const values = { ...bid.values, ...entered };
        model.bids.set(`${supplier} ${lot}`, { ...bid, values, draft: bid.draft && { ...bid.draft, ...entered } });
        return costOf(model.rowOf(lot, values)) !== undefined;
      });
      if (isPossible) return { updatesFeed: true };
      model.bids.clear();
      for (const [place, bid] of kept.bids) model.bids.set(place, bid);
      model.globals[supplier] = kept.globals;
      return false;
    },
  }),
);

const withdrawal = fc.tuple(supplierOf, fc.uniqueArray(lotOf, { minLength: 1 })).map(
  ([supplier, taken]): Step => ({
    name: 'withdraw',
    method: 'POST',
    path: '/bids/withdraw',
    body: { supplier, lots: taken },
    apply: (model) => {
      const isPossible = model.round === 'ACTIVE' && model.reopened;
      if (!isPossible || taken.some((lot) => !model.bidOf(supplier, lot).values)) return false;
      for (const lot of taken) model.bids.set(`${supplier} ${lot}`, { values: null, draft: null, withdrawn: true });
      return { updatesFeed: true };
    },
  }),
);

const buyerValues = fc
  .tuple(
    fc.dictionary(lotOf, fc.constantFrom('0', '1', '3', '10'), { maxKeys: 2 }),
    fc.option(fc.constantFrom('0', '5')),
  )
  .map(
    ([volumes, index]): Step => ({
      name: 'buyer values',
      method: 'PUT',
      path: '/buyer-values',
      body: {
        lots: Object.entries(volumes).map(([lot, Volume]) => ({ lot, values: { Volume } })),
        global: index === null ? {} : { Index: index },
      },
      apply: (model) => {
        Object.assign(model.volumes, volumes);
        if (index !== null) model.index = index;
        for (const [place, bid] of model.bids) {
          const lot = place.slice(3) as Lot;
          const isAffected = index !== null || volumes[lot] !== undefined;
          if (isAffected && !bid.values && bid.draft && costOf(model.rowOf(lot, bid.draft)) !== undefined)
            model.bids.set(place, { values: bid.draft, draft: null, withdrawn: false });
        }
        return { updatesFeed: false };
      },
    }),
  );

const roundStep = fc.constant<Step | 'round'>('round');

const step = fc.oneof(
  { weight: 6, arbitrary: submission },
  { weight: 2, arbitrary: edit },
  { weight: 2, arbitrary: withdrawal },
  { weight: 2, arbitrary: buyerValues },
  { weight: 2, arbitrary: roundStep },
);

/** The step that closes the active round, or reopens the closed one. */
function toggleRound(model: Model): Step {
  const closes = model.round === 'ACTIVE';
  return {
    name: closes ? 'close round' : 'reopen round',
    method: 'POST',
    path: `/rounds/1/${closes ? 'close' : 'reopen'}`,
    body: {},
    apply: () => {
      model.round = closes ? 'CLOSED' : 'ACTIVE';
      if (!closes) model.reopened = true;
      return { updatesFeed: closes };
    },
  };
}

async function openEvent(): Promise<string> {
  const event = await createEvent(organisation, {
    name: 'Modelled',
    primary_cost_calculation: '100 / Speed * Volume + Freight + Index',
    suppliers: suppliers.map((id) => ({ external_id: id })),
    bid_sheet: {
      columns,
      global_values: [{ column: 'Index', value: '0' }],
      lots: [
        { name: 'A', values: [{ column: 'Volume', value: '10' }] },
        { name: 'B', values: [{ column: 'Volume', value: '2' }] },
        { name: 'C' },
      ],
    },
  });
  await desk(organisation, 'POST', `${event}/publish`);
  return event;
}

interface Shown {
  id: string;
  modified: string;
  content: object;
}

async function readFeed(event: string): Promise<Map<string, Shown>> {
  const { suppliers: invited } = await readEvent(organisation, event);
  const names = new Map<string, string>(
    invited.map((one: { id: string; external_id: string }) => [one.id, one.external_id]),
  );
  const records = await readWholeFeed(organisation, 'latest-bids', `page_size=1000&sourcing_event=${event}`);
  return new Map(
    records.map(({ id, modified, sourcing_event: _event, supplier, ...content }) => [
      `${names.get(supplier)} ${content.lot_name}`,
      { id, modified, content },
    ]),
  );
}

// Some hundred commands in sequence, each with a read of the feed: they take long on a busy machine.
test('the feed shows the newest complete bids and the withdrawn ones, with the time of their last change', {
  timeout: 300_000,
}, async () => {
  let changes = 0;
  let refusals = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 25 }), async (steps) => {
      const event = await openEvent();
      const model = new Model();
      let before = new Map<string, Shown>();
      // Opening bids, so that most of the following steps change something.
      const opening = suppliers.map((supplier) => submissionOf(supplier, { A: { Speed: '1' } }, { Freight: '3' }));
      for (const planned of [...opening, ...steps]) {
        const { name, method, path, body, apply } = planned === 'round' ? toggleRound(model) : planned;
        const shownBefore = model.shown;
        const applied = apply(model);
        if (applied && applied.updatesFeed) model.refresh();
        const answer = await organisation.call(method, `/desk/events/${event}${path}`, body);
        if (!applied) refusals += 1;
        const after = await readFeed(event);
        // The command is part of the comparison, so that a failure shows it.
        const what = `${name} ${JSON.stringify(body)}: ${JSON.stringify(answer.body)}`;
        expect({
          what,
          isDone: answer.status < 300,
          incomplete: (answer.body.incomplete ?? []).map((one: { lot: string }) => one.lot).sort(),
          feed: Object.fromEntries([...after].map(([place, { content }]) => [place, content])),
        }).toEqual({
          what,
          isDone: applied !== false,
          incomplete: ((applied && applied.incomplete) || []).toSorted(),
          feed: Object.fromEntries(model.shown),
        });
        for (const [place, record] of after) {
          const earlier = before.get(place);
          if (!earlier) continue;
          const isChanged = JSON.stringify(shownBefore.get(place)) !== JSON.stringify(model.shown.get(place));
          if (isChanged) changes += 1;
          const seen = { what, place, id: record.id, isNewer: record.modified > earlier.modified };
          expect(seen).toEqual({ what, place, id: earlier.id, isNewer: isChanged });
        }
        before = after;
      }
    }),
    { numRuns: 6 },
  );
  // Enough steps have changed records, and enough were refused, for the test to prove something.
  expect(Math.min(changes, refusals)).toBeGreaterThan(10);
});
