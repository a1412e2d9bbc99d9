-- Where notifications and pulls stand in their traces (W3C `traceparent`), so that another process goes on with them.
-- Written only while traces are sent.
alter table bridge.inbox add column trace text;
create table bridge.pull_traces (
  pull uuid primary key,
  trace text not null
);
