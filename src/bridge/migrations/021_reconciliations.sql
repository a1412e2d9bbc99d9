-- Comparisons of what was delivered with what the ERP holds now. They read only.

-- One run over the documents of a flow. A run that was interrupted goes on after `kind` and `key`, the last document
-- that it has compared; they and the counts change in the transaction that writes the page's findings.
create table bridge.reconciliations (
  id bigint generated always as identity primary key,
  flow text not null,
  -- The service's ids of the only events that it compares, sorted; null: all documents of the flow.
  events text[],
  asked_by text not null,
  started timestamptz not null,
  kind text not null default '',
  key text not null default '',
  -- How many documents were compared, how many of them the ERP holds as they were delivered, and by how many values.
  documents bigint not null default 0,
  as_delivered bigint not null default 0,
  compared_values bigint not null default 0,
  -- When it had compared the last one; null while it has not.
  ended timestamptz,
  -- When it was given up for a later one.
  given_up timestamptz
);
create index reconciliations_by_flow on bridge.reconciliations (flow, id);

-- What is not as it was delivered, or could not be compared: one row for each field that differs, and one for any other
-- finding. `number` counts the rows of a document.
create table bridge.reconciliation_findings (
  run bigint not null references bridge.reconciliations on delete cascade,
  kind text not null,
  key text not null,
  number int not null,
  -- `changed`, `missing`, `cancelled`, `orphaned`, `unclear` or `not compared`.
  finding text not null,
  reference text,
  field text,
  expected text,
  held text,
  changed_by text,
  changed_at text,
  reason text,
  primary key (run, kind, key, number)
);
