/** The events, with what was awarded in each: to whom, for how much, and where it is in the ERPs. */
import type { EventsAnswer, ExportAnswer } from '#console/api/list-events-call.ts';
import { ActionButton, Empty, PageHead, Reference, StateMark, Time } from '../parts/basics.tsx';
import { ChoiceFilter, ClearFilters, DayFilter, Filters, TextFilter } from '../parts/filter-bar.tsx';
import { PagesOf } from '../parts/pages-of.tsx';
import { documentPath, eventPath, supplierPath } from '../parts/paths.ts';
import { RowLink, Table } from '../parts/table.tsx';
import { useFilters } from '../parts/use-filters.ts';
import { get } from '../state/api.ts';
import { csvOf } from '../state/csv.ts';
import { moneyText } from '../state/numbers.ts';
import { saveFile } from '../state/save-file.ts';
import { viewer } from '../state/viewer.ts';

export type ShownEvent = EventsAnswer['events'][number];
const statuses = ['DRAFT', 'OPEN', 'PAUSED', 'CLOSED', 'DELETED'];

export function EventsPage() {
  const filters = useFilters();
  return (
    <>
      <PageHead title="Events and awards" />
      <Filters>
        <TextFilter filters={filters} name="q" label="Name or number" />
        <ChoiceFilter filters={filters} name="status" label="Status" choices={statuses} />
        <ChoiceFilter filters={filters} name="source" label="Source" choices={viewer.value?.sourceNames ?? []} />
        <span class="pair">
          <DayFilter filters={filters} name="from" label="Changed from" />
          <DayFilter filters={filters} name="to" label="before" />
        </span>
        <ClearFilters filters={filters} />
        <ActionButton action={() => exportAwards(filters.values)}>Export (CSV)</ActionButton>
      </Filters>
      <PagesOf<EventsAnswer, ShownEvent> path="/api/events" parameters={filters.values} rowsOf={({ events }) => events}>
        {(events) =>
          events.length === 0 ? (
            <Empty>No event matches.</Empty>
          ) : (
            events.map((event) => <EventCard key={`${event.source} ${event.id}`} event={event} />)
          )
        }
      </PagesOf>
    </>
  );
}

const columns = [
  ['eventReference', 'Event number'],
  ['eventName', 'Event'],
  ['status', 'Status'],
  ['supplierExternalId', 'Supplier number'],
  ['supplierName', 'Supplier'],
  ['amount', 'Amount'],
  ['currency', 'Currency'],
  ['flow', 'Flow'],
  ['state', 'State'],
  ['reference', 'ERP number'],
  ['delivered', 'Delivered (UTC)'],
] as const;

/** To a role without prices the columns of amounts are not sent. */
async function exportAwards(filter: Readonly<Record<string, string>>): Promise<void> {
  const { rows } = await get<ExportAnswer>('/api/events/export', filter);
  const shown = columns.filter(
    ([name]) => viewer.value?.seesPrices !== false || !['amount', 'currency'].includes(name),
  );
  saveFile('awards.csv', 'text/csv', csvOf(shown, rows));
}

function EventCard({ event }: { event: ShownEvent }) {
  const { source, id, name, reference, status, isTest } = event;
  return (
    <section class="card group">
      <div class="section-head">
        <h2>
          <a href={eventPath(source, id)}>{name}</a>
        </h2>
        <span class="under">{[reference, status, isTest ? 'test event' : ''].filter(Boolean).join(' · ')}</span>
        <Totals event={event} />
      </div>
      <Awards event={event} />
      <p class="under">
        <AtService event={event} />
      </p>
    </section>
  );
}

export function AtService({ event: { url } }: { event: ShownEvent }) {
  return url === null ? null : (
    <a href={url} target="_blank" rel="noreferrer">
      Open it at the service<span aria-hidden="true"> ↗</span>
    </a>
  );
}

/** For a role without prices there is none. */
export function Totals({ event: { totals, withoutAmount, awards } }: { event: ShownEvent }) {
  if (awards.length === 0 || viewer.value?.seesPrices === false) return null;
  return (
    <p class="totals">
      {totals.map(({ currency, amount }) => (
        <strong key={currency}>{moneyText(amount, currency)}</strong>
      ))}
      {withoutAmount > 0 ? <span class="under">{withoutAmount} not sent yet, without an amount</span> : null}
    </p>
  );
}

export function Awards({ event: { name, status, awards } }: { event: ShownEvent }) {
  if (awards.length === 0)
    return (
      <Empty>{status === 'CLOSED' || status === 'DELETED' ? 'Nothing was awarded.' : 'Nothing awarded yet.'}</Empty>
    );
  const seesPrices = viewer.value?.seesPrices !== false;
  return (
    <Table
      label={`Awards of ${name}`}
      rows={awards}
      keyOf={({ deliveries }) => deliveries[0]?.key ?? ''}
      columns={[
        {
          name: 'Supplier',
          kind: 'wide',
          cell: ({ supplier, supplierName, supplierExternalId }) => (
            <RowLink
              path={supplier === null ? '/documents' : supplierPath(supplier)}
              title={supplierName ?? 'unknown'}
              under={supplierExternalId ?? ''}
            />
          ),
        },
        ...(seesPrices
          ? [
              {
                name: 'Amount',
                kind: 'number' as const,
                cell: ({ amount, currency }: (typeof awards)[number]) =>
                  amount ? moneyText(amount, currency) : <span class="quiet">not sent yet</span>,
              },
            ]
          : []),
        {
          name: 'In the ERPs',
          kind: 'wide',
          cell: ({ deliveries }) => (
            <ul class="deliveries">
              {deliveries.map((delivery) => (
                <li key={delivery.flow}>
                  <a href={documentPath(delivery)}>{delivery.flow}</a>
                  <StateMark state={delivery.state} />
                  {delivery.reference ? <Reference reference={delivery.reference} url={delivery.url} /> : null}
                  {delivery.state === 'delivered' ? <Time at={delivery.delivered} /> : null}
                </li>
              ))}
            </ul>
          ),
        },
      ]}
    />
  );
}
