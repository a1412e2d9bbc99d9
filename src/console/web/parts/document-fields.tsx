/** A document as a person reads it: its lines with lot, share, quantity, prices; its members by their names. */
import type { ComponentChildren } from 'preact';
import type {
  AwardDocument,
  Document,
  EventAwardsDocument,
  JobDocument,
  QuotationDocument,
  RfiAnswersDocument,
  SourcingEventDocument,
  SupplierDocument,
} from '#connector/documents.ts';
import { moneyText, numberText, shareText } from '../state/numbers.ts';
import { Empty, Facts, Time } from './basics.tsx';
import { type Column, Table } from './table.tsx';

/** For viewers without prices every member that holds one is missing. */
type Shown<Of> = Of extends readonly (infer Item)[]
  ? readonly Shown<Item>[]
  : Of extends object
    ? { readonly [Name in keyof Of]?: Shown<Of[Name]> }
    : Of;

export function DocumentFields({ document }: { document: Document }) {
  switch (document.kind) {
    case 'award':
    case 'event-awards':
      return <Award document={document} />;
    case 'quotation':
      return <Quotation document={document} />;
    case 'supplier':
      return <Supplier document={document} />;
    case 'sourcing-event':
      return <Event document={document} />;
    case 'rfi-answers':
      return <RfiAnswers document={document} />;
    case 'file':
      return (
        <Facts
          facts={{
            Question: document.question?.text,
            'Belongs to': document.supplier?.name ?? 'the question',
            Identifier: document.question?.identifier,
            ...mappingFacts(document.fields),
          }}
        />
      );
    case 'job':
      return <Job document={document} />;
  }
}

function mappingFacts(fields: Readonly<Record<string, string | undefined>> | undefined) {
  return Object.fromEntries(Object.entries(fields ?? {}).map(([name, value]) => [`${name} (mapping)`, value]));
}

/** What the head of the page does not show: event and supplier stand there. */
function headOf({
  event,
  supplier,
}: {
  readonly event?: Shown<AwardDocument['event']>;
  readonly supplier?: Shown<AwardDocument['supplier']>;
}): Record<string, ComponentChildren> {
  return {
    'Type of event': event?.type,
    Category: event?.category,
    'Supplier number': supplier?.external_id,
    Tags: event?.tags?.map(({ name, value }) => `${name}: ${value}`).join(', '),
  };
}

const amount = (value: string | undefined) => (value === undefined ? '' : moneyText(value));
const quantity = (value: string | undefined) => (value === undefined ? '' : numberText(value));

/** Columns that are empty in each row are left out. */
function filled<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): Column<Row>[] {
  return columns.filter(({ cell }) => rows.some((row) => cell(row) !== ''));
}

type ValueRow = {
  readonly lot?: string | undefined;
  readonly supplier?: { readonly id?: string | undefined; readonly name?: string | undefined } | undefined;
  readonly values?: Shown<AwardDocument['lines'][number]['values']>;
};

/** The bid sheet as the buyer laid it out: a row for each lot, its columns in their order. */
function BidSheet({ lines }: { lines: readonly ValueRow[] }) {
  const names = [...new Set(lines.flatMap(({ values = [] }) => values.map(({ column }) => column ?? '')))];
  if (names.length === 0) return null;
  const suppliers = filled<ValueRow>(
    [{ name: 'Supplier', kind: 'wide', cell: ({ supplier }) => supplier?.name ?? '' }],
    lines,
  );
  return (
    <>
      <h2>Bid sheet</h2>
      <Table
        label="Bid sheet"
        rows={lines}
        keyOf={({ lot, supplier }) => `${lot} ${supplier?.id}`}
        columns={[
          { name: 'Lot', kind: 'wide', cell: ({ lot }) => <strong>{lot}</strong> },
          ...suppliers,
          ...names.map(
            (name): Column<ValueRow> => ({ name, kind: 'number', cell: ({ values = [] }) => valueIn(values, name) }),
          ),
        ]}
      />
    </>
  );
}

function valueIn(values: NonNullable<ValueRow['values']>, name: string): string {
  const found = values.find(({ column }) => column === name);
  return [found?.value, found?.currency].filter(Boolean).join(' ');
}

function fieldsText(fields: Readonly<Record<string, string | undefined>> | undefined): string {
  return Object.entries(fields ?? {})
    .map(([name, value]) => `${name}: ${value}`)
    .join(' · ');
}

/** What one supplier won, or all suppliers of an event: then each line names its own. */
function Award({ document }: { document: Shown<AwardDocument> | Shown<EventAwardsDocument> }) {
  const { currency, total_cost: total } = document;
  type Line = Shown<EventAwardsDocument['lines'][number]>;
  const lines: readonly Line[] = document.lines ?? [];
  const columns: Column<Line>[] = [
    { name: 'Lot', kind: 'wide', cell: ({ lot }) => <strong>{lot}</strong> },
    { name: 'Supplier', kind: 'wide', cell: ({ supplier }) => supplier?.name ?? '' },
    { name: 'Share', kind: 'number', cell: ({ share }) => (share === undefined ? '' : shareText(share)) },
    { name: 'Quantity', kind: 'number', cell: (line) => quantity(line.quantity) },
    { name: 'Unit price', kind: 'number', cell: (line) => amount(line.unit_price) },
    { name: `Cost${currency ? `, ${currency}` : ''}`, kind: 'number', cell: ({ cost }) => amount(cost) },
    { name: 'Before', kind: 'number', cell: (line) => amount(line.historic_cost) },
    { name: 'Saved', kind: 'number', cell: ({ savings }) => amount(savings) },
    { name: 'Mapping', kind: 'wide', cell: ({ fields }) => fieldsText(fields) },
  ];
  return (
    <>
      <Facts
        facts={{
          ...headOf(document),
          Total: total === undefined ? undefined : <strong>{moneyText(total, currency)}</strong>,
          ...mappingFacts(document.fields),
        }}
      />
      {lines.length === 0 ? (
        <Empty>No lot: nothing was won.</Empty>
      ) : (
        <Table
          label="Lots"
          columns={filled(columns, lines)}
          rows={lines}
          keyOf={({ lot, scenario, supplier }) => `${lot} ${scenario} ${supplier?.id}`}
        />
      )}
      <BidSheet lines={lines} />
    </>
  );
}

function Quotation({ document }: { document: Shown<QuotationDocument> }) {
  const { lines = [], currency } = document;
  type Line = (typeof lines)[number];
  const columns: Column<Line>[] = [
    { name: 'Lot', kind: 'wide', cell: ({ lot }) => <strong>{lot}</strong> },
    { name: 'Quantity', kind: 'number', cell: (line) => quantity(line.quantity) },
    { name: 'Unit price', kind: 'number', cell: (line) => amount(line.unit_price) },
    {
      name: `Bid${currency ? `, ${currency}` : ''}`,
      kind: 'number',
      cell: ({ bids }) =>
        (bids ?? [])
          .map(({ value, volume }) => `${amount(value)}${volume === undefined ? '' : ` for ${numberText(volume)}`}`)
          .join('; '),
    },
    { name: 'Mapping', kind: 'wide', cell: ({ fields }) => fieldsText(fields) },
  ];
  return (
    <>
      <Facts facts={{ ...headOf(document), ...mappingFacts(document.fields) }} />
      {lines.length === 0 ? (
        <Empty>No lot: the supplier bids nothing any more.</Empty>
      ) : (
        <Table label="Lots" columns={filled(columns, lines)} rows={lines} keyOf={({ lot }) => lot ?? ''} />
      )}
      <BidSheet lines={lines} />
    </>
  );
}

function Supplier({ document }: { document: Shown<SupplierDocument> }) {
  return (
    <Facts
      facts={{
        Name: document.name,
        'Supplier number': document.external_id,
        Archived: document.archived === undefined ? undefined : document.archived ? 'yes' : 'no',
        Contacts: (document.contacts ?? []).map(({ name, email }) => `${name} <${email}>`).join(', '),
        ...Object.fromEntries((document.attributes ?? []).map(({ name, value }) => [name, value])),
        ...mappingFacts(document.fields),
      }}
    />
  );
}

function Event({ document }: { document: Shown<SourcingEventDocument> }) {
  const { suppliers = [], rounds = [], event } = document;
  return (
    <>
      <Facts
        facts={{
          Event: event?.name,
          Number: event?.reference_id,
          Status: document.status,
          Type: event?.type,
          Category: event?.category,
          Currency: document.currency,
          Lots: document.lot_count,
          Created: document.created && <Time at={document.created} />,
          Published: document.published && <Time at={document.published} />,
          Closed: document.closed && <Time at={document.closed} />,
          Contact: [document.contact?.name, document.contact?.email].filter(Boolean).join(', '),
          Rounds: rounds.map(({ status }, index) => `${index + 1}: ${status}`).join(', '),
          ...mappingFacts(document.fields),
        }}
      />
      {suppliers.length === 0 ? null : (
        <Table
          label="Suppliers who are invited"
          columns={[
            { name: 'Invited', kind: 'wide', cell: ({ name }) => <strong>{name}</strong> },
            { name: 'Number', cell: (supplier) => supplier.external_id ?? '' },
            { name: 'Accepted', cell: ({ accepted }) => (accepted === true ? 'yes' : 'no') },
            { name: 'Bid', cell: ({ participated }) => (participated === true ? 'yes' : 'no') },
          ]}
          rows={suppliers}
          keyOf={({ id }) => id ?? ''}
        />
      )}
    </>
  );
}

function Job({ document }: { document: Shown<JobDocument> }) {
  const { errors = [] } = document;
  return (
    <>
      <Facts
        facts={{
          Type: document.type,
          Status: document.status,
          Submitted: document.created && <Time at={document.created} />,
          Reference: document.reference_id,
          'Has made': document.created_entity,
          ...mappingFacts(document.fields),
        }}
      />
      {errors.length === 0 ? null : (
        <Table
          label="What the service says"
          columns={[
            { name: 'Place', kind: 'wide', cell: ({ path }) => path ?? '' },
            { name: 'Message', kind: 'wide', cell: ({ message }) => message },
          ]}
          rows={errors}
          keyOf={({ path, message }) => `${path} ${message}`}
        />
      )}
    </>
  );
}

function RfiAnswers({ document }: { document: Shown<RfiAnswersDocument> }) {
  const { lines = [] } = document;
  return (
    <>
      <Facts facts={{ ...headOf(document), ...mappingFacts(document.fields) }} />
      <Table
        label="Answers"
        columns={[
          {
            name: 'Question',
            kind: 'wide',
            cell: ({ question }) => <span>{[question?.identifier, question?.text].filter(Boolean).join('  ')}</span>,
          },
          {
            name: 'Answer',
            kind: 'wide',
            cell: ({ value, options, currency, files }) =>
              [
                [value, currency].filter(Boolean).join(' '),
                (options ?? []).map((option) => option.value).join(', '),
                files?.length ? `${files.length} files` : '',
              ]
                .filter(Boolean)
                .join(' · '),
          },
          { name: 'Comment', kind: 'wide', cell: ({ comment }) => comment ?? '' },
        ]}
        rows={lines}
        keyOf={({ question }) => question?.id ?? ''}
      />
    </>
  );
}
