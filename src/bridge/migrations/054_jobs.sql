-- The jobs that are read one by one, as they have no feed: those that a notification or an intake has named.
create table bridge.jobs (
  source text not null,
  job text not null,
  -- When it is read next; null once it has ended.
  next_look timestamptz,
  -- Reads since it was named last.
  looks int not null default 0,
  -- How often it was named, and when last: one that is named while it is being read is read once more.
  notices int not null default 1,
  noticed timestamptz not null,
  -- The last status, or `not found`.
  ended text,
  -- Why it could not be read; null once it could.
  last_error text,
  -- Of a job that an intake has sent: the reference_id of what it makes, which the job itself does not show.
  reference_id text,
  primary key (source, job)
);
create index jobs_to_read on bridge.jobs (source, next_look) where next_look is not null;
create index jobs_unread on bridge.jobs (source) where last_error is not null;
