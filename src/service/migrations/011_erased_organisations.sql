-- Erasures of organisations.

-- Set by an erasure, before it deletes anything: the organisation's keys are refused, and the operator finds it no more.
alter table service.organisations add column erasing timestamptz;

-- One row for each organisation that was erased: how many rows were deleted, JSON by table, also by an erasure that was
-- interrupted.
create table service.erased_organisations (
  organisation_id uuid primary key,
  started timestamptz not null,
  removed jsonb not null default '{}',
  ended timestamptz
);
