-- Webhooks, their notifications, and the attempts to deliver them.

create table service.webhooks (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  name text not null,
  description text not null,
  url text not null,
  triggers text[] not null,
  signing_alg text not null,
  signing_key bytea not null,
  -- The OAuth parameters, as sealed JSON. They are never shown again.
  authentication bytea,
  is_active boolean not null default true,
  failing_since timestamptz,
  created timestamptz not null
);
create index on service.webhooks (organisation_id);

-- The outbox: a notification is inserted in the transaction of the change that it announces. `pending` waits until
-- `due`. `sending` is claimed by a process until `claimed_until`; after that the process is dead, and it is due again.
-- `superseded` was replaced by a newer notification of the same trigger. A notification that was sent once is never
-- altered: its id always stands for the same bytes.
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
  -- Failed attempts of the notifications that it replaced: the receiver's outage began before this notification.
  earlier_failures int not null default 0,
  first_attempt timestamptz,
  due timestamptz not null,
  claimed_until timestamptz,
  finished timestamptz
);
create unique index deliveries_coalesce on service.deliveries (webhook_id, trigger)
  where state = 'pending' and coalesces;
create index deliveries_due on service.deliveries (due) where state = 'pending';
create index deliveries_claimed on service.deliveries (claimed_until) where state = 'sending';
create index deliveries_finished on service.deliveries (finished) where finished is not null;
create index deliveries_of_webhook on service.deliveries (webhook_id, created);
create index deliveries_of_organisation on service.deliveries (organisation_id, created);
-- For the deliverer's next claim of a webhook, without reading its finished deliveries.
create index deliveries_waiting on service.deliveries (webhook_id, due) where state in ('pending', 'sending');

create table service.delivery_attempts (
  delivery_id uuid not null references service.deliveries on delete cascade,
  number int not null,
  at timestamptz not null,
  status int,
  duration_ms int not null,
  error text,
  -- What only the operator may learn: whether a host is unknown or refused, and at which address.
  operator_error text,
  response_excerpt text,
  primary key (delivery_id, number)
);
