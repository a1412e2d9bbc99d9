-- The Sourcing Service's tables. Every row belongs to one organisation, and every statement names it.
-- Money and quantities are decimal text or numeric, never binary floats; times are UTC with microseconds.

create table service.organisations (
  id uuid primary key,
  name text not null,
  webhook_domains text[] not null default '{}',
  allowed_networks text[] not null default '{}',
  created timestamptz not null
);

create table service.api_keys (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  name text not null,
  scopes text[] not null,
  key_hash bytea not null unique,
  created timestamptz not null,
  expires_at timestamptz,
  revoked_at timestamptz
);
create index on service.api_keys (organisation_id);

-- The first answer to a POST with an Idempotency-Key, kept for 24 hours.
create table service.idempotency_keys (
  organisation_id uuid not null references service.organisations,
  endpoint text not null,
  key text not null,
  body_hash bytea not null,
  status int,
  body text,
  headers jsonb,
  created timestamptz not null,
  primary key (organisation_id, endpoint, key)
);
create index on service.idempotency_keys (created);

create table service.supplier_attributes (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  name text not null,
  unique (organisation_id, name)
);

create table service.suppliers (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  external_id text not null,
  name text not null,
  fields jsonb not null default '{}',
  archived boolean not null default false,
  modified timestamptz not null,
  unique (organisation_id, external_id)
);

create table service.supplier_contacts (
  id uuid primary key,
  supplier_id uuid not null references service.suppliers,
  name text not null,
  email text not null,
  -- The e-mail without its case, as the domain compares it: lower() depends on the database's locale.
  email_key text not null,
  unique (supplier_id, email_key)
);

create table service.supplier_submissions (
  id uuid primary key,
  number bigint generated always as identity,
  organisation_id uuid not null references service.organisations,
  state text not null check (state in ('UNPROCESSED', 'PROCESSED')),
  suppliers jsonb not null,
  state_errors jsonb not null default '{}',
  change_summary jsonb,
  change_warnings jsonb,
  created_by uuid not null,
  created timestamptz not null,
  last_changed timestamptz not null
);
create index on service.supplier_submissions (organisation_id, number) where state = 'UNPROCESSED';

create table service.jobs (
  id uuid primary key,
  number bigint generated always as identity,
  organisation_id uuid not null references service.organisations,
  type text not null,
  status text not null check (status in ('PENDING', 'COMPLETED', 'FAILED')),
  payload jsonb not null,
  created_by uuid not null,
  created timestamptz not null,
  created_entity uuid,
  errors jsonb
);
create index on service.jobs (organisation_id, number) where status = 'PENDING';

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
  created_by uuid not null,
  created timestamptz not null,
  published timestamptz,
  closed timestamptz,
  awarded_scenario text
);
create index on service.sourcing_events (organisation_id, created);

-- A lot's id is also the id of its record in the awards feed: there is one of them for each lot.
create table service.lots (
  id uuid primary key,
  event_id uuid not null references service.sourcing_events,
  position int not null,
  name text not null,
  values jsonb not null,
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
  primary key (event_id, number)
);

create table service.invitations (
  event_id uuid not null references service.sourcing_events,
  supplier_id uuid not null references service.suppliers,
  -- E-mail keys of the invited contacts; null: all of the supplier's.
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

-- `values` and `cost` are the bid that stands; `draft` is what has been entered since and is not complete. Both hold the
-- supplier's values of the whole event, too: a bid that stands does not change under its cost.
create table service.bids (
  id uuid primary key,
  event_id uuid not null references service.sourcing_events,
  lot_id uuid not null references service.lots,
  supplier_id uuid not null references service.suppliers,
  values jsonb,
  cost text,
  draft jsonb,
  modified timestamptz not null,
  unique (event_id, supplier_id, lot_id)
);

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

-- One row for each organisation and feed. Whoever appends locks it until the commit: so `modified` order is commit
-- order, and a reader that has seen a page can never later find an older record.
create table service.feed_heads (
  organisation_id uuid not null references service.organisations,
  feed text not null,
  last_modified timestamptz,
  changes bigint not null default 0,
  primary key (organisation_id, feed)
);

-- Each record once, at the place of its latest change, as the text that will be sent.
create table service.feed_records (
  organisation_id uuid not null references service.organisations,
  feed text not null,
  id text not null,
  modified timestamptz not null,
  sourcing_event uuid not null,
  status text,
  visible boolean not null,
  content_hash bytea not null,
  body text not null,
  primary key (organisation_id, feed, id)
);
create unique index feed_records_order on service.feed_records (organisation_id, feed, modified) where visible;
create index feed_records_by_event on service.feed_records (organisation_id, feed, sourcing_event, modified);

create table service.webhooks (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  name text not null,
  description text not null,
  url text not null,
  triggers text[] not null,
  signing_alg text not null,
  signing_key bytea not null,
  is_active boolean not null default true,
  failing_since timestamptz,
  created timestamptz not null
);
create index on service.webhooks (organisation_id);

-- The outbox: written in the transaction of the change that it announces. `pending` waits until `due`; `sending` is
-- held by a process until `claimed_until`, and due again after it (the process died); `superseded` was replaced by a
-- newer notification of the same trigger while it waited. A notification that was tried once is never altered: its id
-- always stands for the same bytes.
create table service.deliveries (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  webhook_id uuid not null references service.webhooks on delete cascade,
  trigger text not null,
  coalesces boolean not null,
  payload jsonb not null,
  created timestamptz not null,
  state text not null check (state in ('pending', 'sending', 'delivered', 'failed', 'superseded')),
  attempts int not null default 0,
  -- Failed tries of the notifications that it replaced: the receiver's outage did not begin anew with it.
  earlier_failures int not null default 0,
  first_attempt timestamptz,
  due timestamptz not null,
  claimed_until timestamptz,
  finished timestamptz
);
create unique index deliveries_coalesce on service.deliveries (webhook_id, trigger) where state = 'pending' and coalesces;
create index deliveries_due on service.deliveries (due) where state = 'pending';
create index deliveries_claimed on service.deliveries (claimed_until) where state = 'sending';
create index deliveries_finished on service.deliveries (finished) where finished is not null;
create index deliveries_of_webhook on service.deliveries (webhook_id, created);

create table service.delivery_attempts (
  delivery_id uuid not null references service.deliveries on delete cascade,
  number int not null,
  at timestamptz not null,
  status int,
  duration_ms int not null,
  error text,
  response_excerpt text,
  primary key (delivery_id, number)
);
