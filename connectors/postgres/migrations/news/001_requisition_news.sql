-- What became of each requisition. The connector runs this file by itself where it may create tables. To run it by hand,
-- as a user who may, with the name of the schema as in the settings:
--
--   psql "$URL" -1 -v ON_ERROR_STOP=1 -c 'create schema sourcing' -c 'set search_path to sourcing' -f 001_requisition_news.sql
--
-- Rows are written by the connector only; others read them, or let a trigger carry them on.

create table if not exists migration (
  part text not null,
  number integer not null,
  name text not null,
  applied_at timestamptz not null default now(),
  primary key (part, number)
);
comment on table migration is 'Which migrations of the sourcing bridge''s postgres connector this schema has; no business data';
insert into migration (part, number, name) values ('news', 1, '001_requisition_news.sql');

create table requisition_news (
  requisition text primary key,
  status text not null,
  event_kind text,
  event_id text,
  event_name text,
  event_reference text,
  link text,
  reason text,
  text text not null,
  news_key text not null,
  updated_at timestamptz not null default now()
);
comment on table requisition_news is 'What became of each requisition at the sourcing service: the newest news replaces the one before';
comment on column requisition_news.requisition is 'The ERP''s number of the requisition';
comment on column requisition_news.status is 'created, published, closed, awarded, deleted (the event was), removed (it was withdrawn), failed (nothing was made of it)';
comment on column requisition_news.event_kind is 'event or request; null where nothing was made of it, as the other columns of the event';
comment on column requisition_news.event_id is 'The service''s id of what was made of it';
comment on column requisition_news.event_reference is 'The numbers of all requisitions that the event was made of';
comment on column requisition_news.link is 'Where a person sees the event; null where the settings do not say it';
comment on column requisition_news.reason is 'Of failed: the reason in the service''s words';
comment on column requisition_news.text is 'All of this in one line for a person';
comment on column requisition_news.news_key is 'Another for each news, the same for a repetition of one';
