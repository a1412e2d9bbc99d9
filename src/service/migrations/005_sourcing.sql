-- Sourcing requests, sourcing events, their bids and awards, and the answers to their questions.

create table service.sourcing_requests (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  name text not null,
  description text not null,
  reference_id text,
  requested_by text,
  needed_by timestamptz,
  category text,
  tags jsonb not null,
  items jsonb not null,
  created_by uuid not null,
  created timestamptz not null,
  -- The creation, or the latest attachment of files.
  modified timestamptz not null
);
create index on service.sourcing_requests (organisation_id, created);
create index on service.sourcing_requests (organisation_id, reference_id) where reference_id is not null;
create index on service.sourcing_requests (organisation_id, modified);

create table service.request_files (
  request_id uuid not null references service.sourcing_requests,
  file_id uuid not null references service.files,
  position int generated always as identity,
  primary key (request_id, file_id)
);

create table service.sourcing_events (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  name text not null,
  description text not null,
  reference_id text,
  type text not null,
  status text not null check (status in ('DRAFT', 'OPEN', 'PAUSED', 'CLOSED', 'DELETED')),
  primary_currency text not null,
  secondary_currencies jsonb not null,
  tags jsonb not null,
  category text,
  event_contact jsonb,
  columns jsonb not null,
  column_roles jsonb not null,
  global_values jsonb not null,
  primary_cost_calculation text,
  is_test boolean not null,
  is_template boolean not null default false,
  close_after_last_round boolean not null default false,
  created_by uuid not null,
  created timestamptz not null,
  published timestamptz,
  closed timestamptz,
  awarded_scenario text,
  -- A change that updates no feed (the buyer's values, for example) has altered the content of records of standing
  -- bids: the next append to the latest-bids feed compares all of them with the feed, not only those of its own bids.
  bids_behind boolean not null default false,
  -- The same for the RFI responses.
  answers_behind boolean not null default false,
  -- What became of the event and its rounds, oldest first: `[{time, what, why}]`, the newest 500.
  history jsonb not null default '[]'
);
create index on service.sourcing_events (organisation_id, created);

create table service.event_files (
  event_id uuid not null references service.sourcing_events,
  file_id uuid not null references service.files,
  position int generated always as identity,
  primary key (event_id, file_id)
);

create table service.event_requests (
  event_id uuid not null references service.sourcing_events,
  request_id uuid not null references service.sourcing_requests,
  position int not null,
  primary key (event_id, request_id)
);
create index on service.event_requests (request_id);

-- A lot's id is also the id of its record in the awards feed: there is one record for each lot.
create table service.lots (
  id uuid primary key,
  event_id uuid not null references service.sourcing_events,
  position int not null,
  name text not null,
  values jsonb not null,
  sourcing_request uuid references service.sourcing_requests,
  unique (event_id, position),
  unique (event_id, name)
);

create table service.rounds (
  event_id uuid not null references service.sourcing_events,
  number int not null,
  starts timestamptz,
  ends timestamptz,
  status text not null check (status in ('PENDING', 'ACTIVE', 'CLOSED', 'COMPLETE')),
  awarded_cost text,
  awarded_lot_count int,
  -- The round was reopened: bids may be withdrawn in it.
  reopened boolean not null default false,
  primary key (event_id, number)
);
-- For the timers' search for due rounds.
create index rounds_starting on service.rounds (starts) where status = 'PENDING';
create index rounds_ending on service.rounds (ends) where status = 'ACTIVE';

create table service.invitations (
  event_id uuid not null references service.sourcing_events,
  supplier_id uuid not null references service.suppliers,
  -- The e-mail keys of the invited contacts; null: all of the supplier's contacts.
  contacts text[],
  invite_count int not null default 0,
  accepted boolean not null default false,
  participated boolean not null default false,
  last_successful_bid timestamptz,
  last_failed_bid timestamptz,
  last_accessed timestamptz,
  -- The supplier's newest values for columns of scope EVENT.
  global_values jsonb not null default '{}',
  primary key (event_id, supplier_id)
);

-- `values` and `cost` are the standing bid; `offers` are the asks of a Dutch auction. `draft` are values that were
-- entered since and are incomplete. Both include the supplier's values of the whole event, so that the values of a
-- standing bid do not change without its cost. A withdrawn bid has neither values nor cost, and its record shows the
-- withdrawal until the supplier bids again.
create table service.bids (
  id uuid primary key,
  event_id uuid not null references service.sourcing_events,
  lot_id uuid not null references service.lots,
  supplier_id uuid not null references service.suppliers,
  values jsonb,
  offers jsonb,
  cost text,
  draft jsonb,
  withdrawn boolean not null default false,
  modified timestamptz not null,
  unique (event_id, supplier_id, lot_id)
);
-- Removing lots from a draft checks the references to each of them.
create index on service.bids (lot_id);

create table service.scenarios (
  event_id uuid not null references service.sourcing_events,
  name text not null,
  primary key (event_id, name)
);

create table service.scenario_awards (
  event_id uuid not null,
  scenario text not null,
  lot_id uuid not null references service.lots,
  supplier_id uuid not null references service.suppliers,
  share text not null,
  primary key (event_id, scenario, lot_id, supplier_id),
  foreign key (event_id, scenario) references service.scenarios on delete cascade
);
create index on service.scenario_awards (lot_id);

-- `definition`: the question in the contract's members, without ids. `include=questions` shows its `modified`. Clients
-- may choose the ids: the ids of one organisation do not collide with those of another.
create table service.questions (
  organisation_id uuid not null references service.organisations,
  event_id uuid not null references service.sourcing_events,
  id uuid not null,
  position int not null,
  parent_id uuid,
  definition jsonb not null,
  modified timestamptz not null,
  primary key (event_id, id),
  unique (organisation_id, id)
);

-- One row for each supplier and answered question. Its id is the id of its feed record, and stays when the answer
-- changes.
create table service.rfi_responses (
  id bigint generated always as identity primary key,
  event_id uuid not null,
  supplier_id uuid not null references service.suppliers,
  question_id uuid not null,
  value text,
  -- The chosen options with the gating flags at the time of the answer: a later edit of the question changes no
  -- response.
  selected_options jsonb,
  comment text,
  currency text,
  document_file_ids uuid[] not null default '{}',
  modified timestamptz not null,
  unique (event_id, supplier_id, question_id),
  foreign key (event_id, question_id) references service.questions
);
-- Removing questions from the list checks the answers to each of them.
create index on service.rfi_responses (event_id, question_id);
