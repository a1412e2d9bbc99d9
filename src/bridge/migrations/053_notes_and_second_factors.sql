-- What people have written down about a document that was refused: who looks after it, and what was decided. The audit log has
-- the notes before.
create table bridge.document_notes (
  flow text not null,
  kind text not null,
  key text not null,
  looked_after_by text,
  decision text,
  noted_by text not null,
  noted timestamptz not null,
  primary key (flow, kind, key)
);

-- The second factor of an account of the console (TOTP, RFC 6238).
create table bridge.second_factors (
  -- The name of the account.
  id text primary key references bridge.console_users (name) on update cascade on delete cascade,
  -- Sealed under the master key.
  secret bytea not null,
  -- The step of time whose code was used last: no code counts twice.
  used_step bigint not null
);
