-- Jobs with their payloads and results.

create table service.jobs (
  id uuid primary key,
  number bigint generated always as identity,
  organisation_id uuid not null references service.organisations,
  type text not null,
  status text not null check (status in ('PENDING', 'COMPLETED', 'FAILED')),
  payload jsonb not null,
  -- The base of absolute links in the result: the address to which the job was submitted.
  base_url text,
  created_by uuid not null,
  created timestamptz not null,
  created_entity uuid,
  errors jsonb,
  detail jsonb
);
create index on service.jobs (organisation_id, number) where status = 'PENDING';
-- The list of jobs is counted and filtered with this index alone.
create index jobs_newest on service.jobs (organisation_id, created, number) include (type, status);
