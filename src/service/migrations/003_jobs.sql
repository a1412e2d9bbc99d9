-- Jobs: what clients have asked for, and what became of it.

create table service.jobs (
  id uuid primary key,
  number bigint generated always as identity,
  organisation_id uuid not null references service.organisations,
  type text not null,
  status text not null check (status in ('PENDING', 'COMPLETED', 'FAILED')),
  payload jsonb not null,
  -- Absolute links in the result begin with this address: the one under which the job was submitted.
  base_url text,
  created_by uuid not null,
  created timestamptz not null,
  created_entity uuid,
  errors jsonb,
  detail jsonb
);
create index on service.jobs (organisation_id, number) where status = 'PENDING';
-- The list of jobs is counted and filtered within this index.
create index jobs_newest on service.jobs (organisation_id, created, number) include (type, status);
