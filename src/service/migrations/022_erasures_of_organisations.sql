-- What an interrupted erasure has deleted stands with the organisation, and goes with it.

-- How many rows were deleted, JSON by table, also by an erasure that was interrupted.
alter table service.organisations add column removed jsonb not null default '{}';
update service.organisations o set removed = e.removed
  from service.erased_organisations e where e.organisation_id = o.id;
drop table service.erased_organisations;
