-- All awards of a closed event in one document. Run by the connector, or by hand as 001_documents.sql.

create table event_awards (
  key text not null,
  state text not null check (state in ('current', 'withdrawn')),
  content_hash text not null,
  version bigint not null,
  written_at timestamptz not null,
  event_id text not null,
  event_name text not null,
  event_reference_id text,
  event_type text not null,
  event_category text,
  event_is_test boolean not null,
  event_tags jsonb not null,
  currency text not null,
  exchange_rates jsonb not null,
  total_cost numeric not null,
  bid_sheet_csv text not null,
  fields jsonb,
  primary key (key)
);
comment on table event_awards is 'All awards of a closed event, once all of them are known; without lines nothing. One row a document; while its state is withdrawn, it has no rows in the tables of its parts.';
comment on column event_awards.state is 'current, or withdrawn: the sourcing service has taken it back';
comment on column event_awards.content_hash is 'SHA-256 of the document in hexadecimal';
comment on column event_awards.version is 'Counts the changes, from 1';
comment on column event_awards.written_at is 'When it changed here last';
comment on column event_awards.key is 'The event''s id';
comment on column event_awards.event_type is 'RFQ, DUTCH or ENGLISH; others may come';
comment on column event_awards.event_tags is 'By name, then value';
comment on column event_awards.currency is 'ISO 4217: the event''s primary currency';
comment on column event_awards.exchange_rates is 'Of the secondary currencies, by code';
comment on column event_awards.total_cost is 'The sum of all lines'' cost, exact';
comment on column event_awards.bid_sheet_csv is 'The event''s bid sheet as a CSV (RFC 4180, with a header): a row for each line, in their order. Its columns: lot, supplier, supplier_external_id, share, then those of the sheet in their order; after one whose cells name a currency the column `<name> (currency)`';
comment on column event_awards.fields is 'What the flow''s mapping makes, by field name';

create table event_awards_supplier (
  key text not null,
  position integer not null,
  supplier_id text not null,
  supplier_external_id text,
  supplier_name text not null,
  total_cost numeric not null,
  primary key (key, position)
);
comment on table event_awards_supplier is 'Those who won a lot of an event (by id); key: as in event_awards';
comment on column event_awards_supplier.position is 'Counts from 1, in the order of the document';
comment on column event_awards_supplier.supplier_id is 'The service''s own id';
comment on column event_awards_supplier.supplier_external_id is 'The client''s id of it: what its `supplier` document is keyed by';
comment on column event_awards_supplier.total_cost is 'The sum of the cost of this supplier''s lines, exact';

create table event_awards_line (
  key text not null,
  line integer not null,
  supplier_id text not null,
  supplier_external_id text,
  supplier_name text not null,
  lot text not null,
  scenario text,
  sourcing_request text,
  requisition_intake text,
  requisition_reference_id text,
  requisition_line text,
  share numeric not null,
  quantity numeric,
  unit_price numeric,
  cost numeric not null,
  historic_cost numeric,
  savings numeric,
  fields jsonb,
  primary key (key, line)
);
comment on table event_awards_line is 'The awarded lots of an event, a row for each supplier (by lot, then by the id of the supplier); key: as in event_awards';
comment on column event_awards_line.line is 'Counts from 1, in the order of the document';
comment on column event_awards_line.supplier_id is 'The service''s own id';
comment on column event_awards_line.supplier_external_id is 'The client''s id of it: what its `supplier` document is keyed by';
comment on column event_awards_line.lot is 'Its name; unique within the event';
comment on column event_awards_line.sourcing_request is 'The id of the sourcing request that the lot serves';
comment on column event_awards_line.requisition_intake is 'The intake that has read it from its ERP';
comment on column event_awards_line.requisition_reference_id is 'The ERP''s number of the requisition';
comment on column event_awards_line.requisition_line is 'The ERP''s number of the line; left out where it is not known which it is';
comment on column event_awards_line.share is '"0.6" is 60 % of the lot';
comment on column event_awards_line.quantity is 'The share of the lot''s quantity; only where the flow names its column';
comment on column event_awards_line.unit_price is 'In the document''s currency, converted where it was given in another; only where the flow names its column';
comment on column event_awards_line.cost is 'For the share, in the document''s currency';
comment on column event_awards_line.historic_cost is 'For the share, in the document''s currency';
comment on column event_awards_line.savings is 'historic_cost less cost';
comment on column event_awards_line.fields is 'What the flow''s mapping makes, by field name';

create table event_awards_value (
  key text not null,
  line integer not null,
  position integer not null,
  column_name text not null,
  value text not null,
  currency text,
  primary key (key, line, position)
);
comment on table event_awards_value is 'The bid sheet''s row of a line of event_awards, one row a cell (the whole row of the bid sheet, in the order of its columns); key: as in event_awards';
comment on column event_awards_value.line is 'Of event_awards_line';
comment on column event_awards_value.position is 'Counts from 1, in the order of the document';
comment on column event_awards_value.currency is 'ISO 4217, where the value is an amount that was given in a currency';

comment on column document_history.kind is 'supplier, sourcing-event, quotation, award, event-awards, rfi-answers or file';

insert into migration (part, number, name) values ('tables', 4, '004_event_awards.sql');
