-- The processes of the bridge: each commits its own row every few seconds while it lives, and deletes it when it stops.
-- `identity` tells others on its machine that it has ended.
create table bridge.processes (
  id bigint primary key,
  name text not null,
  identity text not null,
  started timestamptz not null default clock_timestamp(),
  beat timestamptz not null default clock_timestamp()
);
drop table bridge.heartbeat;
