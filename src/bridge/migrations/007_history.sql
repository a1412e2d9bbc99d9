-- The history of deliveries: what was tried, what was sent, and the names by which a person finds it.

-- One row for each attempt of each document, written in the transaction that settles its outcome. `id` sorts by time, so
-- pruning and ranges of time need no other index. It is made before that transaction: one that runs a second time,
-- because the answer to its COMMIT was lost, writes no second row. Names and amount are those that the document showed.
create table bridge.attempts (
  id uuid primary key,
  flow text not null,
  kind text not null,
  key text not null,
  sourcing_event text,
  event_name text,
  event_reference text,
  supplier text,
  supplier_name text,
  supplier_external_id text,
  -- A decimal, as the document has it.
  amount text,
  currency text,

  -- `create`, `amend` or `cancel`; null where the document could not be made.
  action text,
  -- What the attempt came to: `make` the document, `wait` for an earlier call, `load` its file, `look up`, `write`.
  step text not null,
  -- What the connector answered; `not-yet` or `held` where the document was not made, `waits` where no call was made.
  outcome text not null,
  -- Counts the tries since the document last changed.
  number int not null,
  started timestamptz not null,
  ended timestamptz not null,
  -- When it is tried again; null when it is not.
  next_try timestamptz,
  error_type text,
  message text,
  -- The ERP's.
  reference text,

  -- The version that was sent (`document_versions`), the idempotency key of the call, and the pull that brought the
  -- change.
  content_hash text,
  request_id uuid,
  pull uuid
);
-- Equal keys are stored once in an index, so the attempts of a document add little to it.
create index attempts_by_document on bridge.attempts (key);
create index attempts_by_request on bridge.attempts (request_id) where request_id is not null;
-- A reference that the ERP gave to an object that it has replaced since.
create index attempts_by_reference on bridge.attempts (reference text_pattern_ops) where outcome = 'created';

-- What was sent to the ERP, one row for each content of a document. The latest that was delivered is always kept;
-- `plan` and `show` compare with it. `body` is null where the document is too long to be kept. `made_of` is JSON: the
-- records that it was made of, each with its feed, id and stamp.
create table bridge.document_versions (
  flow text not null,
  kind text not null,
  key text not null,
  content_hash text not null,
  body text,
  made_of text not null,
  -- When it was last sent, to within a day.
  sent timestamptz not null,
  primary key (flow, kind, key, content_hash)
);
create index document_versions_sent on bridge.document_versions (sent);

insert into bridge.document_versions (flow, kind, key, content_hash, body, made_of, sent)
  select flow, kind, key, delivered_hash, delivered_body, '[]', coalesce(delivered, now())
  from bridge.flow_documents where delivered_hash is not null and delivered_body is not null;
alter table bridge.flow_documents drop column delivered_body;

-- The pull that last marked the document as due, and the pull that answered the notification.
alter table bridge.flow_documents add column pull uuid;
alter table bridge.inbox add column pull uuid;
create index inbox_by_pull on bridge.inbox (pull) where pull is not null;

-- References of the ERPs, to find a document by.
create index flow_documents_by_reference on bridge.flow_documents (reference text_pattern_ops)
  where reference is not null;

-- The names by which a person finds documents: events with their reference, suppliers with their external id (empty:
-- none), as the source showed them last. `folded` is both in lower case, for searches. There are far fewer of them than
-- of documents, so a search reads all of them, and needs no index of trigrams.
create table bridge.subjects (
  source text not null,
  -- `event` or `supplier`.
  kind text not null,
  id text not null,
  name text not null,
  reference text not null,
  folded text not null,
  primary key (source, kind, id)
);
create index subjects_by_reference on bridge.subjects (source, kind, reference) where reference <> '';

-- What the mirror holds already. A record that cannot be read has no name to be found by.
do $$
declare
  event record;
begin
  for event in select source, record_id, body from bridge.mirror where feed = 'sourcing-events' loop
    begin
      insert into bridge.subjects (source, kind, id, name, reference, folded)
        select event.source, 'event', event.record_id, e.name, e.reference, lower(e.name || ' ' || e.reference)
        from (select coalesce(event.body::json ->> 'name', '') as name,
                coalesce(event.body::json ->> 'reference_id', '') as reference) e
        on conflict do nothing;
      insert into bridge.subjects (source, kind, id, name, reference, folded)
        select distinct on (s.id) event.source, 'supplier', s.id, s.name, s.reference,
          lower(s.name || ' ' || s.reference)
        from (select lower(l ->> 'id') as id, coalesce(l ->> 'name', '') as name,
                coalesce(l ->> 'external_id', '') as reference
              from json_array_elements(event.body::json -> 'suppliers') l) s
        where s.id is not null
        on conflict do nothing;
    exception when others then
      continue;
    end;
  end loop;
end $$;
