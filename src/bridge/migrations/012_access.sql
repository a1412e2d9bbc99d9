-- Who may use the console, who uses it now, and who did what.

-- The audit log: one row for each action that changes something, by the console, the command line or a program, and for
-- logins. It is only appended to.
create table bridge.actions (
  -- Sorts by time.
  id uuid primary key,
  at timestamptz not null,
  -- What kind of actor: `user` of the console, `cli`, `key`, `token` or `program`; and its name.
  actor text not null,
  name text not null,
  -- `flow.pause`
  what text not null,
  -- `flow erp-inbox`; null where the action concerns none.
  object text,
  -- The address, or for the command line the machine.
  origin text,
  -- `allowed`: it was begun; `failed`: what was begun did not succeed; `refused`: it was not begun.
  outcome text not null check (outcome in ('allowed', 'failed', 'refused')),
  -- JSON.
  details text not null
);
create index actions_by_name on bridge.actions (name, id);

-- A role that does not own the table can add rows, and delete those that are old, and nothing else.
create function bridge.keep_actions() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' and old.at < now() - interval '30 days' then
    return old;
  end if;
  raise exception 'the audit log is only appended to: % is refused', lower(tg_op)
    using errcode = 'insufficient_privilege';
end $$;
create trigger keep_actions before update or delete on bridge.actions
  for each row execute function bridge.keep_actions();
create trigger keep_all_actions before truncate on bridge.actions
  for each statement execute function bridge.keep_actions();

-- Accounts with a password. `version` grows with each change of the account, and ends its sessions.
create table bridge.console_users (
  -- In lower case.
  name text primary key,
  role text not null check (role in ('viewer', 'viewer-without-prices', 'operator')),
  -- The flows that it may see; null: all.
  flows text[],
  -- `$argon2id$…`
  password_hash text not null,
  version int not null default 1,
  created timestamptz not null,
  changed timestamptz not null,
  last_login timestamptz
);

create table bridge.console_sessions (
  -- The SHA-256 of the token in the cookie.
  token_hash bytea primary key,
  -- The account, and its version at the login; null for the others, which have their name, role and flows here.
  account text references bridge.console_users (name) on delete cascade,
  account_version int,
  name text not null,
  role text not null,
  flows text[],
  -- `password`, `link` or `openid`.
  method text not null,
  created timestamptz not null,
  last_used timestamptz not null,
  ends timestamptz not null
);
create index console_sessions_by_account on bridge.console_sessions (account) where account is not null;

-- Links that log in once, on this machine.
create table bridge.console_links (
  token_hash bytea primary key,
  name text not null,
  role text not null,
  flows text[],
  ends timestamptz not null
);

-- Failed logins in a row, by account, by known browser and by address. Accounts that do not exist share a fixed number of
-- rows, so that guessing names makes nothing grow.
create table bridge.console_login_failures (
  bucket text primary key,
  failures int not null,
  last timestamptz not null,
  -- No password is checked before this time.
  waits_until timestamptz not null
);
create index console_login_failures_last on bridge.console_login_failures (last);
