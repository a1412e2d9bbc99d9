-- The audit log: one row for each action of the operator, at the desk or on webhooks, written in the transaction of the
-- change; and for logins, and for what was refused. It is only appended to.

create table service.actions (
  -- Sorts by time.
  id uuid primary key,
  at timestamptz not null,
  -- What kind of actor: `key`, `token` (the operator's), `cli` or `program`; and its name.
  actor text not null,
  name text not null,
  -- `event.publish`
  what text not null,
  -- `event 0190…`; null where the action concerns none.
  object text,
  -- The address, or for the command line the machine.
  origin text,
  -- `allowed`: it was done; `failed`: what was begun did not succeed; `refused`: it was not done.
  outcome text not null check (outcome in ('allowed', 'failed', 'refused')),
  -- JSON.
  details text not null
);
create index actions_by_name on service.actions (name, id);

-- A role that does not own the table can add rows, and delete those that are old, and nothing else.
create function service.keep_actions() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' and old.at < now() - interval '30 days' then
    return old;
  end if;
  raise exception 'the audit log is only appended to: % is refused', lower(tg_op)
    using errcode = 'insufficient_privilege';
end $$;
create trigger keep_actions before update or delete on service.actions
  for each row execute function service.keep_actions();
create trigger keep_all_actions before truncate on service.actions
  for each statement execute function service.keep_actions();
