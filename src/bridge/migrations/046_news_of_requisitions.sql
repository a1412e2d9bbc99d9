-- What the ERP is told of a requisition stands with the requisition. All null while there is no news.
-- `intent`: committed before the ERP is called; `news_due` is when that call can no longer take effect. `waiting`: to be
-- told again from `news_due` on. `told`: the ERP has it. `dead`: the ERP refuses it, and a person has to act.
alter table bridge.intake_records
  -- JSON, and its idempotency key: the same for each attempt.
  add column news text,
  add column news_id uuid,
  add column news_state text,
  add column news_due timestamptz,
  add column news_failures int not null default 0,
  add column news_error text,
  -- What the ERP has certainly shown last, where, and since when.
  add column told text,
  add column told_reference text,
  add column told_at timestamptz;
update bridge.intake_records r set news = a.wanted, news_id = a.id, news_state = a.state, news_due = a.next_try,
    news_failures = a.failures, news_error = a.last_error, told = a.told, told_reference = a.reference, told_at = a.told_at
  from bridge.intake_acknowledgements a where a.intake = r.intake and a.erp_key = r.erp_key;
drop table bridge.intake_acknowledgements;
create index intake_records_to_tell on bridge.intake_records (intake, news_due) where news_state in ('intent', 'waiting');
