-- Intakes: what is read from ERPs and sent to the sources.

-- One row for each intake. An intake that is not configured any more is not worked.
create table bridge.intakes (
  name text primary key,
  source text not null,
  stream text not null,
  configured boolean not null default true,
  -- Everything in the settings that decides what is sent. A process whose settings have another fingerprint does not
  -- work the intake.
  fingerprint text not null default '',
  connector text not null,
  -- A MAC of the connector's settings: a pause that they caused ends when they have changed.
  settings_mac text,

  -- The connector's own text: where the next read continues. Null: at the beginning.
  checkpoint text,
  next_read timestamptz not null,
  -- When the ERP was last read to its end.
  last_read timestamptz,
  read_failures int not null default 0,
  read_error text,
  -- When the read from the beginning began that is under way, and the one that last came to its end.
  full_began timestamptz,
  last_full timestamptz,
  -- How many records could not be read, because they have no number that can be stored.
  unreadable bigint not null default 0,

  -- The pull of the source's supplier list with which all records were compared.
  compared_list timestamptz,
  -- When the first submission was allowed: the service had no suppliers, or a person has agreed.
  begun timestamptz,

  -- Until then nothing is submitted: a quota is spent, or a submission failed.
  next_send timestamptz,
  send_failures int not null default 0,
  send_error text,
  -- Suppliers in the next submission at most: fewer after one was refused as a whole. Null: as set.
  pack_max int,

  -- `operator`, `auth`, `config`, `first-run`, `archives` or `attributes`.
  paused_kind text,
  paused_reason text,
  paused_at timestamptz,
  -- A person has agreed to archive what was to be archived then.
  archives_agreed timestamptz
);

-- What the ERP holds, one row for each record, and what became of it at the source. `key` is the supplier's external id
-- at the source, once it is known: no two intakes of a source may write one supplier.
create table bridge.intake_records (
  intake text not null references bridge.intakes on delete cascade,
  erp_key text not null,
  source text not null,
  key text,
  -- How the supplier at the source was found: `id`, `match`, `person`; `new` for one that the intake creates.
  linked text,
  -- By what suppliers at the source may be matched, in the form `name:acme gmbh`.
  match_values text[] not null default '{}',

  -- The newest version: JSON of the record. It grows by one with each change.
  version bigint not null default 1,
  content_hash bytea not null,
  body text not null,
  first_seen timestamptz not null,
  -- When it was asked for: before the request was sent.
  seen timestamptz not null,

  -- To be compared, or compared and to be sent. `action` is null until it was compared: then `create`, `update`,
  -- `archive`.
  due timestamptz,
  waiting_since timestamptz,
  action text,
  -- The entry of the supplier list with which it was compared.
  compared_hash bytea,
  -- What both sides last agreed on: JSON of what the intake wanted when the source had it.
  base text,
  -- What the source has, by what it has taken since it last showed the supplier: JSON, and when.
  held text,
  held_at timestamptz,

  -- The open submission that carries it, the change in it (JSON), and what it wanted then.
  submission uuid,
  change text,
  change_base text,
  -- How often the source took this version and did not keep it.
  taken int not null default 0,
  -- When the source took an archiving to which no person had agreed.
  archived_at timestamptz,
  submitted timestamptz,
  note text,

  error_type text,
  last_error text,
  dead_since timestamptz,
  primary key (intake, erp_key)
);
create unique index intake_records_by_key on bridge.intake_records (source, key) where key is not null;
create index intake_records_by_match on bridge.intake_records using gin (match_values);
create index intake_records_to_compare on bridge.intake_records (intake, due, erp_key)
  where due is not null and action is null and submission is null and dead_since is null;
create index intake_records_to_send on bridge.intake_records (intake, action, due, erp_key)
  where action is not null and submission is null and dead_since is null;
create index intake_records_waiting on bridge.intake_records (intake, waiting_since) where waiting_since is not null;
create index intake_records_by_submission on bridge.intake_records (submission) where submission is not null;
create index intake_records_dead on bridge.intake_records (intake, dead_since) where dead_since is not null;
create index intake_records_archived on bridge.intake_records (intake, archived_at) where archived_at is not null;
create index intake_records_held on bridge.intake_records (intake) where held_at is not null;

-- The versions before the newest one.
create table bridge.intake_versions (
  intake text not null references bridge.intakes on delete cascade,
  erp_key text not null,
  version bigint not null,
  body text not null,
  seen timestamptz not null,
  replaced timestamptz not null,
  primary key (intake, erp_key, version)
);
create index intake_versions_replaced on bridge.intake_versions (replaced);

-- Submissions of supplier changes. The row is committed before the POST (`intent`): one that is found in this state
-- later belongs to a POST whose end no process saw. Its id is the idempotency key.
-- `intent`: about to be sent. `sent`: the source has named its id. `uncertain`: it may have arrived or not.
-- `processed`: its outcome is known. `released`: it certainly did not take effect; its records wait again.
create table bridge.intake_submissions (
  id uuid primary key,
  intake text not null references bridge.intakes on delete cascade,
  source text not null,
  state text not null,
  -- The first supplier with attributes that the source has not shown yet.
  canary boolean not null default false,
  suppliers int not null,
  created timestamptz not null,
  -- When the last POST ends at the latest.
  ends timestamptz not null,
  posts int not null default 1,
  -- The source's id.
  uuid text,
  looks int not null default 0,
  next_look timestamptz,
  ended timestamptz,
  refused int,
  last_error text
);
create index intake_submissions_open on bridge.intake_submissions (intake, next_look)
  where state in ('intent', 'sent', 'uncertain');
create index intake_submissions_by_uuid on bridge.intake_submissions (source, uuid) where uuid is not null;
create index intake_submissions_ended on bridge.intake_submissions (ended) where ended is not null;

-- What became of each supplier in each submission, for history: one row an attempt.
create table bridge.intake_attempts (
  submission uuid not null references bridge.intake_submissions on delete cascade,
  erp_key text not null,
  intake text not null,
  version bigint not null,
  change text not null,
  -- `taken`, `refused`, `released`; null while the submission is open.
  outcome text,
  message text,
  primary key (submission, erp_key)
);
create index intake_attempts_by_record on bridge.intake_attempts (intake, erp_key);

-- Supplier attributes that the source is known to have.
create table bridge.intake_attributes (
  source text not null,
  name text not null,
  primary key (source, name)
);
