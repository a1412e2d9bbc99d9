-- The processes of the service: each commits its own row every few seconds while it lives, and deletes it when it stops.
create table service.processes (
  id bigint primary key,
  name text not null,
  identity text,
  started timestamptz not null default clock_timestamp(),
  beat timestamptz not null default clock_timestamp()
);
drop table service.heartbeat;
