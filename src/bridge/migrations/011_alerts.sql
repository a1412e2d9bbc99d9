-- Alerts: what needs a person, and the messages about it. Everything is stored before it is sent.

-- One row from when something was noticed until it is over. `grouped_by` tells those of one kind and subject apart.
create table bridge.alerts (
  id uuid primary key,
  kind text not null,
  subject text not null,
  grouped_by text not null,
  summary text not null,
  action text not null,
  started timestamptz not null,
  -- When it was first found to be over. It ends when it stays so: what comes and goes is one alert.
  gone timestamptz,
  ended timestamptz
);
create unique index alerts_open on bridge.alerts (kind, subject, grouped_by) where ended is null;
create index alerts_ended on bridge.alerts (ended) where ended is not null;

-- One message to one channel. Its body is stored before it is sent, so a repeat after a crash has the same id and text.
create table bridge.alert_messages (
  id uuid primary key,
  channel text not null,
  body text not null,
  made timestamptz not null,
  -- When it is tried next; null when it was sent or given up.
  due timestamptz,
  attempts int not null default 0,
  last_error text,
  sent timestamptz,
  given_up timestamptz
);
-- A channel sends one message after the other.
create unique index alert_messages_open on bridge.alert_messages (channel) where due is not null;
create index alert_messages_made on bridge.alert_messages (channel, made);

-- What a channel is told of an alert: `started`, `reminder`, `ended`, each once.
create table bridge.alert_notices (
  alert uuid not null references bridge.alerts on delete cascade,
  channel text not null,
  event text not null,
  noticed timestamptz not null,
  message uuid references bridge.alert_messages on delete set null,
  primary key (alert, channel, event)
);
create index alert_notices_waiting on bridge.alert_notices (channel, noticed) where message is null;

-- The refusals since a notification of the source was last accepted.
alter table bridge.refusals add column row_first timestamptz;
alter table bridge.refusals add column row_count bigint not null default 0;
