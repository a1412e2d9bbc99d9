-- Events that closed long ago: when their workings were deleted. What the feeds show of them stays.
alter table service.sourcing_events add column emptied timestamptz;
create index events_closed on service.sourcing_events (organisation_id, closed) where status = 'CLOSED' and emptied is null;
create index files_by_age on service.files (organisation_id, created);
