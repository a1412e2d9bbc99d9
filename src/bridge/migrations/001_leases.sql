-- Leases: which process works on what. One holder at a time. Every write of the holder is guarded by the fencing token,
-- so a process that was paused or cut off cannot write after another process has taken the lease over.
create table bridge.leases (
  name text primary key,
  fencing_token bigint not null default 0,
  holder bigint,
  expires timestamptz
);
