-- Whoever has a token is let in: by a session, or once by a link that begins one. Both stand in one table.
alter table bridge.console_sessions rename to console_tokens;
alter index bridge.console_sessions_by_account rename to console_tokens_by_account;
alter table bridge.console_tokens
  -- `session`, in a cookie; or `link`, which the command line prints. A link has no method, and was not used yet.
  add column kind text not null default 'session' check (kind in ('session', 'link')),
  alter column method drop not null,
  alter column last_used drop not null;
alter table bridge.console_tokens alter column kind drop default;
insert into bridge.console_tokens (token_hash, kind, name, role, flows, created, ends)
  select token_hash, 'link', name, role, flows, now(), ends from bridge.console_links;
drop table bridge.console_links;
