-- What the function has taken. The connector runs this file by itself where it may create tables. To run it by hand, as a
-- user who may, with the name of the schema as in the settings:
--
--   psql "$URL" -1 -v ON_ERROR_STOP=1 -c 'create schema sourcing' -c 'set search_path to sourcing' -f 001_delivered.sql
--
-- Rows are written by the connector only, in the transaction that calls the function.

create table if not exists migration (
  part text not null,
  number integer not null,
  name text not null,
  applied_at timestamptz not null default now(),
  primary key (part, number)
);
comment on table migration is 'Which migrations of the sourcing bridge''s postgres connector this schema has; no business data';
insert into migration (part, number, name) values ('function', 1, '001_delivered.sql');

create table delivered_document (
  kind text not null,
  key text not null,
  state text not null check (state in ('current', 'withdrawn')),
  content_hash text not null,
  idempotency_key text not null,
  reference text not null,
  version bigint not null,
  written_at timestamptz not null,
  primary key (kind, key)
);
comment on table delivered_document is 'Each document that the function has taken, in its last version';
comment on column delivered_document.kind is 'supplier, sourcing-event, quotation, award, rfi-answers or file';
comment on column delivered_document.state is 'current, or withdrawn: the sourcing service has taken it back';
comment on column delivered_document.content_hash is 'SHA-256 of the document in hexadecimal';
comment on column delivered_document.idempotency_key is 'Of the last call: one with the same key is not made again';
comment on column delivered_document.reference is 'What the function returned';
comment on column delivered_document.version is 'Counts the calls, from 1';
comment on column delivered_document.written_at is 'When the function was called last';
