-- What `/readyz` writes: a database that is read-only, full, or hangs in its commits is seen by it.
create table bridge.heartbeat (
  one boolean primary key default true check (one),
  beat timestamptz not null
);
