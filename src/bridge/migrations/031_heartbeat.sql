-- What `/readyz` writes: a database that is read-only, full, or hangs in its commits is seen by it.
create table bridge.heartbeat (
  one boolean primary key default true check (one),
  beat timestamptz not null
);

-- Wake-ups between processes had tables of their own. Whoever may not drop them can leave them: nothing uses them.
do $$ begin
  drop schema if exists bridge_queue cascade;
exception when insufficient_privilege then null;
end $$;
