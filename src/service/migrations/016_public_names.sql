-- What clients send by the names of the public pages.

-- A job that names files is RUNNING until they were uploaded.
alter table service.jobs
  drop constraint jobs_status_check,
  add constraint jobs_status_check check (status in ('PENDING', 'RUNNING', 'COMPLETED', 'FAILED')),
  -- The named files in their order; one that has come has the id, the size, the hash and the media type of its upload.
  add column uploads jsonb,
  -- When the worker takes a RUNNING job again: when the last file has come, at the latest when the URLs expire.
  add column due timestamptz;
create index on service.jobs (organisation_id, due) where status = 'RUNNING';

alter table service.sourcing_requests
  add column bot uuid,
  add column bidding_deadline timestamptz,
  add column item_fields jsonb not null default '[]';
