-- Narrower keys, and the operators beside the token of the settings.

-- What a key with the scope `desk` may do there: null, everything; `buyer`, what buyers do; `supplier`, what this one does.
alter table service.api_keys
  add column desk_side text check (desk_side in ('buyer', 'supplier')),
  add column desk_supplier_id uuid references service.suppliers,
  add constraint desk_supplier check ((desk_side = 'supplier') is true = (desk_supplier_id is not null));
create index api_keys_by_supplier on service.api_keys (desk_supplier_id) where desk_supplier_id is not null;

-- Accounts that may call `/admin`, each with a token of its own, of which the hash is here.
create table service.operators (
  id uuid primary key,
  name text not null,
  token_hash bytea not null unique,
  created timestamptz not null,
  expires_at timestamptz,
  revoked_at timestamptz,
  -- It took the place of the token of the settings.
  replaces_setting boolean not null default false
);
create unique index operators_by_name on service.operators (name) where revoked_at is null;
-- The tokens of the settings that were replaced: a process that still has one in its settings refuses it.
create table service.replaced_tokens (
  token_hash bytea primary key,
  replaced timestamptz not null
);
