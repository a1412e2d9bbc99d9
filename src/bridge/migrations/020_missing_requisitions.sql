-- Requisitions that are deleted in the ERP without a trace: they are missing from the list of the open ones.

alter table bridge.intake_records
  -- Of requisitions: whether the newest version is open. A record that cannot be read may have the escape of the zero
  -- character, which this type refuses.
  add column open boolean generated always as (replace(body, '\u0000', '\ufffd')::json ->> 'open' = 'true') stored,
  -- Since when the ERP's list of open requisitions has it no more. While it is open, it is waiting to count as withdrawn;
  -- else its newest version says so since the bridge found it missing.
  add column missing_since timestamptz;
create index intake_records_open on bridge.intake_records (intake) where open or missing_since is not null;
