-- Signed reports of comparisons: what was compared, what differed, and how much of the money was found in the ERP.

-- How many documents of a run are in each state, by currency: `as delivered`, or one of the findings. One row stands for
-- each document that was compared. `currency` is empty where the documents have no amount.
create table bridge.reconciliation_totals (
  run bigint not null references bridge.reconciliations on delete cascade,
  kind text not null,
  currency text not null,
  state text not null,
  documents bigint not null,
  amount numeric not null,
  primary key (run, kind, currency, state)
);

-- The Ed25519 key that signs the reports, sealed under the master key; the one row is locked while a report is added, so
-- that each names the one before it.
create table bridge.report_keys (
  id int primary key check (id = 1),
  public_key bytea not null,
  private_key bytea not null,
  created timestamptz not null
);

-- Each report names the hash of the one before it. A report that is older than what is kept loses its text, and its hash
-- stays.
create table bridge.reports (
  number bigint primary key check (number > 0),
  run bigint references bridge.reconciliations on delete set null,
  flow text not null,
  made timestamptz not null,
  -- SHA-256 of the text in UTF-8, in hexadecimal.
  hash text not null,
  -- The signed JSON, to the byte as the file has it; null once it was deleted.
  body text
);
create index reports_by_flow on bridge.reports (flow, number);
create index reports_by_run on bridge.reports (run);
