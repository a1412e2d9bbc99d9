-- Requisitions: what intakes make of them at the sources.

-- Events and requests that intakes make. While `gathering`, requisitions are added; from `ready` on it is made.
-- `making`: a job was submitted, or is about to be. `made`: the source has it, as `entity`. `held`: it is not known
-- whether the source has made it, and a person has to say. `failed`: the source refused it; nothing was made.
create table bridge.intake_events (
  id uuid primary key,
  intake text not null references bridge.intakes on delete cascade,
  source text not null,
  -- `event`, `request` or `event-from-template`.
  make text not null,
  group_key text not null,
  state text not null,
  created timestamptz not null,
  ready timestamptz not null,
  -- What it is found by at the source; null while it is gathering.
  reference_id text,
  name text,
  entity text,
  made timestamptz,
  -- Its requisitions have changed since it was made.
  update_due timestamptz,
  -- Files of its requisitions are to be attached.
  files_due timestamptz,
  last_error text
);
create index intake_events_by_intake on bridge.intake_events (intake, state, ready);
create index intake_events_to_update on bridge.intake_events (intake, update_due) where update_due is not null;
create index intake_events_with_files on bridge.intake_events (intake, files_due) where files_due is not null;
create unique index intake_events_by_entity on bridge.intake_events (source, entity) where entity is not null;

-- Which requisitions an event is made of. A requisition is in one live event at most: none is bought twice.
-- `need_hash`: what of it was sent last. `told_hash`: about what change a person was told last.
create table bridge.intake_members (
  event uuid not null references bridge.intake_events on delete cascade,
  intake text not null,
  erp_key text not null,
  live boolean not null default true,
  lots int not null,
  need_hash bytea not null,
  told_hash bytea,
  primary key (event, erp_key),
  foreign key (intake, erp_key) references bridge.intake_records on delete cascade
);
create unique index intake_members_live on bridge.intake_members (intake, erp_key) where live;

-- Which line of a requisition became which lot.
create table bridge.intake_lots (
  event uuid not null references bridge.intake_events on delete cascade,
  lot text not null,
  erp_key text not null,
  line text not null,
  primary key (event, lot)
);
create index intake_lots_by_record on bridge.intake_lots (erp_key);

-- Jobs for events. The row is committed before the POST (`intent`); its id is the idempotency key. `sent`: the source
-- has named its id. `uncertain`: it may have arrived or not. `completed`, `failed`: its outcome is known. `released`: it
-- certainly did not take effect. `held`: it may have taken effect, and a person has to say.
create table bridge.intake_jobs (
  id uuid primary key,
  intake text not null references bridge.intakes on delete cascade,
  source text not null,
  event uuid not null references bridge.intake_events on delete cascade,
  -- `create`, `update` or `attach`.
  kind text not null,
  state text not null,
  -- JSON: the body of the POST, and what it was made of.
  payload text not null,
  made_of text not null,
  created timestamptz not null,
  -- When the last POST ends at the latest.
  ends timestamptz not null,
  posts int not null default 1,
  -- The source's id.
  uuid text,
  looks int not null default 0,
  next_look timestamptz,
  ended timestamptz,
  last_error text
);
create unique index intake_jobs_open on bridge.intake_jobs (event) where state in ('intent', 'sent', 'uncertain');
create index intake_jobs_to_look on bridge.intake_jobs (intake, next_look) where state in ('intent', 'sent', 'uncertain');
create index intake_jobs_by_uuid on bridge.intake_jobs (source, uuid) where uuid is not null;
create index intake_jobs_ended on bridge.intake_jobs (ended) where ended is not null;
