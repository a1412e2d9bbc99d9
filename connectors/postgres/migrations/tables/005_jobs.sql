-- What became of jobs. Run by the connector, or by hand as 001_documents.sql.

create table job (
  key text not null,
  state text not null check (state in ('current', 'withdrawn')),
  content_hash text not null,
  version bigint not null,
  written_at timestamptz not null,
  type text not null,
  status text not null,
  created timestamptz,
  created_entity text,
  reference_id text,
  fields jsonb,
  primary key (key)
);
comment on table job is 'What became of a job: whether the service has made what it was asked for. One row a document; it is never withdrawn.';
comment on column job.state is 'current, or withdrawn: the sourcing service has taken it back';
comment on column job.content_hash is 'SHA-256 of the document in hexadecimal';
comment on column job.version is 'Counts the changes, from 1';
comment on column job.written_at is 'When it changed here last';
comment on column job.key is 'The job''s id';
comment on column job.type is 'CREATE_SOURCING_EVENT, UPDATE_SOURCING_EVENT and so on; others may come';
comment on column job.status is 'PENDING or RUNNING, then COMPLETED or FAILED; others may come';
comment on column job.created is 'When it was submitted';
comment on column job.created_entity is 'Of a job that creates: the id of the event or the sourcing request that it has made';
comment on column job.reference_id is 'Of the event or the sourcing request that it makes; only where an intake of the bridge has sent the job';
comment on column job.fields is 'What the flow''s mapping makes, by field name';
create index job_by_reference on job (reference_id) where reference_id is not null;

create table job_error (
  key text not null,
  position integer not null,
  path text,
  message text not null,
  primary key (key, position)
);
comment on table job_error is 'Why a job failed, or which files it left out, in the service''s words; key: as in job';
comment on column job_error.position is 'Counts from 1, in the order of the document';
comment on column job_error.path is 'The place in what was sent, or the name of a file';

comment on column document_history.kind is 'supplier, sourcing-event, quotation, award, event-awards, rfi-answers, file or job';

insert into migration (part, number, name) values ('tables', 5, '005_jobs.sql');
