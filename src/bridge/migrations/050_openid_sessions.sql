-- The provider of a person who has logged in by OpenID can end that person's sessions (`subject`), or one of them, by the id
-- that it has for it.
alter table bridge.console_tokens
  add column subject text,
  add column provider_session text,
  -- A `callback` is an answer of the provider that was used: it logs in once.
  drop constraint console_tokens_kind_check,
  add constraint console_tokens_kind_check check (kind in ('session', 'link', 'callback')),
  alter column name drop not null,
  alter column role drop not null;
create index console_tokens_by_subject on bridge.console_tokens (subject) where subject is not null;
