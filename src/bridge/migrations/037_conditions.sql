-- Alerts: what each channel was told of. The rows of before tell nothing that the next look does not find again.
drop table bridge.alert_notices;
drop table bridge.alert_messages;
drop table bridge.alerts;

-- One row for each condition that lasts and each channel, until the channel was told that it is over.
create table bridge.alerts (
  -- `webhook` or `email`.
  channel text not null,
  kind text not null,
  subject text not null,
  -- The same in all messages about it.
  id uuid not null,
  since timestamptz not null,
  summary text not null,
  action text not null,
  -- When the receiver has last taken a message about it.
  told timestamptz,
  -- When it was first found to be over. It ends when it stays so: what comes and goes is one alert.
  gone timestamptz,
  -- The message that is being sent, and what it says: `began`, `lasts` or `ended`.
  message uuid,
  event text,
  -- Of that message: how often it was tried, when it is tried next, and why it was not taken.
  tries int not null default 0,
  due timestamptz,
  error text,
  primary key (channel, kind, subject)
);

-- Samples: a row a minute for each flow, and one for all feeds together. The charts add the minutes up when they are
-- read. Of the longer rows of before those stay that are older than the shorter ones.
delete from bridge.samples s where exists (select from bridge.samples f where f.seconds < s.seconds and f.at <= s.at);
insert into bridge.samples (seconds, at, subject, name, count, lag_seconds, total)
  select min(seconds), at, 'feeds', 'all', sum(count), max(lag_seconds), sum(total)
  from bridge.samples where subject = 'feed' group by at;
delete from bridge.samples where subject = 'feed';
alter table bridge.samples drop constraint samples_pkey;
alter table bridge.samples drop column seconds;
alter table bridge.samples add primary key (at, subject, name);
