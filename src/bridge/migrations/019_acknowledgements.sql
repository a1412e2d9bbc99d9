-- What the ERPs are told of their requisitions: one row for each requisition of which there is news.
-- `intent`: committed before the ERP is called; `next_try` is when that call can no longer take effect. `waiting`: to be
-- told again from `next_try` on. `told`: the ERP has it. `dead`: the ERP refuses it, and a person has to act.
create table bridge.intake_acknowledgements (
  intake text not null,
  erp_key text not null,
  -- The idempotency key of the news in `wanted` (JSON): the same for each attempt.
  id uuid not null,
  wanted text not null,
  state text not null,
  next_try timestamptz,
  failures int not null default 0,
  last_error text,
  -- What the ERP has certainly shown last, where, and since when.
  told text,
  reference text,
  told_at timestamptz,
  primary key (intake, erp_key),
  foreign key (intake, erp_key) references bridge.intake_records on delete cascade
);
create index intake_acknowledgements_to_tell on bridge.intake_acknowledgements (intake, next_try)
  where state in ('intent', 'waiting');
