-- The tables of the documents. The connector runs this file by itself where it may create tables. To run it by hand, as a
-- user who may, with the name of the schema as in the settings:
--
--   psql "$URL" -1 -v ON_ERROR_STOP=1 -c 'create schema sourcing' -c 'set search_path to sourcing' -f 001_documents.sql
--
-- Rows are written by the connector only. Indexes, views, triggers, check constraints and columns that have a default may
-- be added by anybody.

create table if not exists migration (
  part text not null,
  number integer not null,
  name text not null,
  applied_at timestamptz not null default now(),
  primary key (part, number)
);
comment on table migration is 'Which migrations of the sourcing bridge''s postgres connector this schema has; no business data';
insert into migration (part, number, name) values ('tables', 1, '001_documents.sql');

create table supplier (
  key text not null,
  state text not null check (state in ('current', 'withdrawn')),
  content_hash text not null,
  version bigint not null,
  written_at timestamptz not null,
  id text,
  external_id text,
  name text not null,
  archived boolean not null,
  fields jsonb,
  primary key (key)
);
comment on table supplier is 'A supplier''s master data. Never withdrawn: `archived` is a state. One row a document; while its state is withdrawn, it has no rows in the tables of its parts.';
comment on column supplier.state is 'current, or withdrawn: the sourcing service has taken it back';
comment on column supplier.content_hash is 'SHA-256 of the document in hexadecimal';
comment on column supplier.version is 'Counts the changes, from 1';
comment on column supplier.written_at is 'When it changed here last';
comment on column supplier.key is 'The external id, else the id';
comment on column supplier.id is 'The service''s own id; unknown of a supplier that was in no event yet';
comment on column supplier.archived is 'Known from the list of suppliers only; false without it';
comment on column supplier.fields is 'What the flow''s mapping makes, by field name';

create table supplier_attribute (
  key text not null,
  position integer not null,
  name text not null,
  value text not null,
  primary key (key, position)
);
comment on table supplier_attribute is 'A supplier''s attributes (by name; known from the list of suppliers only); key: as in supplier';
comment on column supplier_attribute.position is 'Counts from 1, in the order of the document';

create table supplier_contact (
  key text not null,
  position integer not null,
  name text not null,
  email text not null,
  primary key (key, position)
);
comment on table supplier_contact is 'A supplier''s contacts (by e-mail address); key: as in supplier';
comment on column supplier_contact.position is 'Counts from 1, in the order of the document';

create table sourcing_event (
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
  status text not null,
  currency text not null,
  exchange_rates jsonb not null,
  created timestamptz,
  published timestamptz,
  closed timestamptz,
  lot_count bigint,
  contact_name text,
  contact_email text,
  columns text[] not null,
  sourcing_requests text[] not null,
  fields jsonb,
  primary key (key)
);
comment on table sourcing_event is 'An event as its feed shows it. Withdrawn when it is deleted. One row a document; while its state is withdrawn, it has no rows in the tables of its parts.';
comment on column sourcing_event.state is 'current, or withdrawn: the sourcing service has taken it back';
comment on column sourcing_event.content_hash is 'SHA-256 of the document in hexadecimal';
comment on column sourcing_event.version is 'Counts the changes, from 1';
comment on column sourcing_event.written_at is 'When it changed here last';
comment on column sourcing_event.key is 'The event''s id';
comment on column sourcing_event.event_type is 'RFQ, DUTCH or ENGLISH; others may come';
comment on column sourcing_event.status is 'DRAFT, OPEN, PAUSED, CLOSED or DELETED; others may come';
comment on column sourcing_event.currency is 'ISO 4217: the event''s primary currency';
comment on column sourcing_event.exchange_rates is 'Of the secondary currencies, by code';
comment on column sourcing_event.published is 'When it was published last';
comment on column sourcing_event.closed is 'When it was closed last';
comment on column sourcing_event.columns is 'The bid sheet''s columns, in their order';
comment on column sourcing_event.sourcing_requests is 'The ids of the sourcing requests that it serves';
comment on column sourcing_event.fields is 'What the flow''s mapping makes, by field name';

create table sourcing_event_tag (
  key text not null,
  position integer not null,
  name text not null,
  value text not null,
  primary key (key, position)
);
comment on table sourcing_event_tag is 'An event''s tags (by name, then value); key: as in sourcing_event';
comment on column sourcing_event_tag.position is 'Counts from 1, in the order of the document';

create table sourcing_event_round (
  key text not null,
  position integer not null,
  status text not null,
  starts timestamptz,
  ends timestamptz,
  awarded_cost numeric,
  awarded_lot_count bigint,
  primary key (key, position)
);
comment on table sourcing_event_round is 'An event''s rounds (in their order); key: as in sourcing_event';
comment on column sourcing_event_round.position is 'Counts from 1, in the order of the document';
comment on column sourcing_event_round.status is 'PENDING, ACTIVE, CLOSED or COMPLETE; others may come';
comment on column sourcing_event_round.awarded_cost is 'In the document''s currency';

create table sourcing_event_supplier (
  key text not null,
  position integer not null,
  supplier_id text not null,
  supplier_external_id text,
  supplier_name text not null,
  accepted boolean,
  participated boolean,
  primary key (key, position)
);
comment on table sourcing_event_supplier is 'Who is invited to an event (those who are invited, by id); key: as in sourcing_event';
comment on column sourcing_event_supplier.position is 'Counts from 1, in the order of the document';
comment on column sourcing_event_supplier.supplier_id is 'The service''s own id';
comment on column sourcing_event_supplier.supplier_external_id is 'The client''s id of it: what its `supplier` document is keyed by';

create table quotation (
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
  supplier_id text not null,
  supplier_external_id text,
  supplier_name text not null,
  currency text not null,
  exchange_rates jsonb not null,
  fields jsonb,
  primary key (key)
);
comment on table quotation is 'What one supplier bids in one event; without lines nothing, or nothing any more. One row a document; while its state is withdrawn, it has no rows in the tables of its parts.';
comment on column quotation.state is 'current, or withdrawn: the sourcing service has taken it back';
comment on column quotation.content_hash is 'SHA-256 of the document in hexadecimal';
comment on column quotation.version is 'Counts the changes, from 1';
comment on column quotation.written_at is 'When it changed here last';
comment on column quotation.key is '<event id>/<supplier id>';
comment on column quotation.event_type is 'RFQ, DUTCH or ENGLISH; others may come';
comment on column quotation.event_tags is 'By name, then value';
comment on column quotation.supplier_id is 'The service''s own id';
comment on column quotation.supplier_external_id is 'The client''s id of it: what its `supplier` document is keyed by';
comment on column quotation.currency is 'ISO 4217: the event''s primary currency';
comment on column quotation.exchange_rates is 'Of the secondary currencies, by code';
comment on column quotation.fields is 'What the flow''s mapping makes, by field name';

create table quotation_line (
  key text not null,
  line integer not null,
  lot text not null,
  sourcing_request text,
  quantity numeric,
  unit_price numeric,
  fields jsonb,
  primary key (key, line)
);
comment on table quotation_line is 'The lots that a quotation bids on (by lot); key: as in quotation';
comment on column quotation_line.line is 'Counts from 1, in the order of the document';
comment on column quotation_line.lot is 'Its name; unique within the event';
comment on column quotation_line.sourcing_request is 'The id of the sourcing request that the lot serves';
comment on column quotation_line.quantity is 'The lot''s quantity; only where the flow names its column';
comment on column quotation_line.unit_price is 'In the document''s currency, converted where it was given in another; only where the flow names its column';
comment on column quotation_line.fields is 'What the flow''s mapping makes, by field name';

create table quotation_bid (
  key text not null,
  line integer not null,
  position integer not null,
  value numeric not null,
  volume numeric,
  primary key (key, line, position)
);
comment on table quotation_bid is 'What was bid on a quotation''s line (rFQ and English auction: one, the lot''s cost in the document''s currency. Dutch auction: each price with its volume); key: as in quotation';
comment on column quotation_bid.line is 'Of quotation_line';
comment on column quotation_bid.position is 'Counts from 1, in the order of the document';

create table quotation_value (
  key text not null,
  line integer not null,
  position integer not null,
  column_name text not null,
  value text not null,
  currency text,
  primary key (key, line, position)
);
comment on table quotation_value is 'The bid sheet''s row of a quotation''s line, one row a cell (the whole row of the bid sheet, in the order of its columns); key: as in quotation';
comment on column quotation_value.line is 'Of quotation_line';
comment on column quotation_value.position is 'Counts from 1, in the order of the document';
comment on column quotation_value.currency is 'ISO 4217, where the value is an amount that was given in a currency';

create table award (
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
  supplier_id text not null,
  supplier_external_id text,
  supplier_name text not null,
  currency text not null,
  exchange_rates jsonb not null,
  total_cost numeric not null,
  fields jsonb,
  primary key (key)
);
comment on table award is 'What one supplier won in one event; without lines nothing. One row a document; while its state is withdrawn, it has no rows in the tables of its parts.';
comment on column award.state is 'current, or withdrawn: the sourcing service has taken it back';
comment on column award.content_hash is 'SHA-256 of the document in hexadecimal';
comment on column award.version is 'Counts the changes, from 1';
comment on column award.written_at is 'When it changed here last';
comment on column award.key is '<event id>/<supplier id>';
comment on column award.event_type is 'RFQ, DUTCH or ENGLISH; others may come';
comment on column award.event_tags is 'By name, then value';
comment on column award.supplier_id is 'The service''s own id';
comment on column award.supplier_external_id is 'The client''s id of it: what its `supplier` document is keyed by';
comment on column award.currency is 'ISO 4217: the event''s primary currency';
comment on column award.exchange_rates is 'Of the secondary currencies, by code';
comment on column award.total_cost is 'The sum of the lines'' cost, exact';
comment on column award.fields is 'What the flow''s mapping makes, by field name';

create table award_line (
  key text not null,
  line integer not null,
  lot text not null,
  scenario text,
  sourcing_request text,
  share numeric not null,
  quantity numeric,
  unit_price numeric,
  cost numeric not null,
  historic_cost numeric,
  savings numeric,
  fields jsonb,
  primary key (key, line)
);
comment on table award_line is 'The lots of an award (by lot); key: as in award';
comment on column award_line.line is 'Counts from 1, in the order of the document';
comment on column award_line.lot is 'Its name; unique within the event';
comment on column award_line.sourcing_request is 'The id of the sourcing request that the lot serves';
comment on column award_line.share is '"0.6" is 60 % of the lot';
comment on column award_line.quantity is 'The share of the lot''s quantity; only where the flow names its column';
comment on column award_line.unit_price is 'In the document''s currency, converted where it was given in another; only where the flow names its column';
comment on column award_line.cost is 'For the share, in the document''s currency';
comment on column award_line.historic_cost is 'For the share, in the document''s currency';
comment on column award_line.savings is 'historic_cost less cost';
comment on column award_line.fields is 'What the flow''s mapping makes, by field name';

create table award_value (
  key text not null,
  line integer not null,
  position integer not null,
  column_name text not null,
  value text not null,
  currency text,
  primary key (key, line, position)
);
comment on table award_value is 'The bid sheet''s row of an award''s line, one row a cell (the whole row of the bid sheet, in the order of its columns); key: as in award';
comment on column award_value.line is 'Of award_line';
comment on column award_value.position is 'Counts from 1, in the order of the document';
comment on column award_value.currency is 'ISO 4217, where the value is an amount that was given in a currency';

create table rfi_answers (
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
  supplier_id text not null,
  supplier_external_id text,
  supplier_name text not null,
  fields jsonb,
  primary key (key)
);
comment on table rfi_answers is 'What one supplier answered to the questions of one event; without lines nothing. One row a document; while its state is withdrawn, it has no rows in the tables of its parts.';
comment on column rfi_answers.state is 'current, or withdrawn: the sourcing service has taken it back';
comment on column rfi_answers.content_hash is 'SHA-256 of the document in hexadecimal';
comment on column rfi_answers.version is 'Counts the changes, from 1';
comment on column rfi_answers.written_at is 'When it changed here last';
comment on column rfi_answers.key is '<event id>/<supplier id>';
comment on column rfi_answers.event_type is 'RFQ, DUTCH or ENGLISH; others may come';
comment on column rfi_answers.event_tags is 'By name, then value';
comment on column rfi_answers.supplier_id is 'The service''s own id';
comment on column rfi_answers.supplier_external_id is 'The client''s id of it: what its `supplier` document is keyed by';
comment on column rfi_answers.fields is 'What the flow''s mapping makes, by field name';

create table rfi_answer (
  key text not null,
  line integer not null,
  question_id text not null,
  question_identifier text,
  question_text text,
  question_type text,
  question_input_type text,
  question_parent text,
  question_categories text[] not null,
  value text,
  comment text,
  currency text,
  fields jsonb,
  primary key (key, line)
);
comment on table rfi_answer is 'The answers of one supplier in one event (by the identifiers of their questions, numbers in them by value: 1.2 before 1.10); key: as in rfi_answers';
comment on column rfi_answer.line is 'Counts from 1, in the order of the document';
comment on column rfi_answer.question_identifier is 'A label as 1.2; left out, as what follows, while the question is unknown';
comment on column rfi_answer.question_type is 'GATING, EVENT_GATING, MANDATORY or OPTIONAL; others may come';
comment on column rfi_answer.question_input_type is 'TEXT, NUMBER, CURRENCY, SINGLE_CHOICE, MULTIPLE_CHOICE, DATE or FILE; others may come';
comment on column rfi_answer.question_parent is 'The id of the question that it belongs to';
comment on column rfi_answer.value is 'As the input type has it; a date is its day in UTC';
comment on column rfi_answer.currency is 'ISO 4217, of an amount';
comment on column rfi_answer.fields is 'What the flow''s mapping makes, by field name';

create table rfi_answer_option (
  key text not null,
  line integer not null,
  position integer not null,
  value text not null,
  satisfies_gating boolean,
  primary key (key, line, position)
);
comment on table rfi_answer_option is 'The options that were chosen in an answer (those that were chosen); key: as in rfi_answers';
comment on column rfi_answer_option.line is 'Of rfi_answer';
comment on column rfi_answer_option.position is 'Counts from 1, in the order of the document';

create table rfi_answer_file (
  key text not null,
  line integer not null,
  position integer not null,
  file_id text not null,
  primary key (key, line, position)
);
comment on table rfi_answer_file is 'The files that are attached to an answer (ids, in their order; each is a `file` document of its own); key: as in rfi_answers';
comment on column rfi_answer_file.line is 'Of rfi_answer';
comment on column rfi_answer_file.position is 'Counts from 1, in the order of the document';
comment on column rfi_answer_file.file_id is 'Its `file` document has this key';

create table file (
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
  supplier_id text,
  supplier_external_id text,
  supplier_name text,
  question_id text not null,
  question_identifier text,
  question_text text,
  question_type text,
  question_input_type text,
  question_parent text,
  question_categories text[] not null,
  fields jsonb,
  name text,
  byte_count bigint,
  sha256 text,
  primary key (key)
);
comment on table file is 'A file that is attached to an answer or to a question. Its bytes come with the operation. Where several name it, the document shows the one of the event whose id comes first. One row a document; while its state is withdrawn, it has no rows in the tables of its parts.';
comment on column file.state is 'current, or withdrawn: the sourcing service has taken it back';
comment on column file.content_hash is 'SHA-256 of the document in hexadecimal';
comment on column file.version is 'Counts the changes, from 1';
comment on column file.written_at is 'When it changed here last';
comment on column file.key is 'The file''s id: the same id is always the same bytes';
comment on column file.event_type is 'RFQ, DUTCH or ENGLISH; others may come';
comment on column file.event_tags is 'By name, then value';
comment on column file.supplier_id is 'The service''s own id';
comment on column file.supplier_external_id is 'The client''s id of it: what its `supplier` document is keyed by';
comment on column file.question_identifier is 'A label as 1.2; left out, as what follows, while the question is unknown';
comment on column file.question_type is 'GATING, EVENT_GATING, MANDATORY or OPTIONAL; others may come';
comment on column file.question_input_type is 'TEXT, NUMBER, CURRENCY, SINGLE_CHOICE, MULTIPLE_CHOICE, DATE or FILE; others may come';
comment on column file.question_parent is 'The id of the question that it belongs to';
comment on column file.fields is 'What the flow''s mapping makes, by field name';
comment on column file.name is 'As the sourcing service has it; null while withdrawn';
comment on column file.byte_count is 'How many bytes it has';
comment on column file.sha256 is 'Of its bytes, in hexadecimal';

create table file_content (
  key text primary key,
  bytes bytea not null
);
comment on table file_content is 'The bytes of files; key: as in file. Empty with the setting file_bytes: false';

create table document_history (
  kind text not null,
  key text not null,
  version bigint not null,
  written_at timestamptz not null,
  state text not null,
  content_hash text not null,
  document jsonb not null,
  primary key (kind, key, version)
);
comment on table document_history is 'Every version of each document, with the setting history: true';
comment on column document_history.kind is 'supplier, sourcing-event, quotation, award, rfi-answers or file';
comment on column document_history.version is 'As in the table of its kind';
comment on column document_history.document is 'As its JSON Schema says; numbers and times are text';
