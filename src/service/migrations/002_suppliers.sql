-- Suppliers, their contacts, and the submissions that change them.

create table service.supplier_attributes (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  name text not null,
  unique (organisation_id, name)
);

create table service.suppliers (
  id uuid primary key,
  organisation_id uuid not null references service.organisations,
  external_id text not null,
  name text not null,
  fields jsonb not null default '{}',
  archived boolean not null default false,
  modified timestamptz not null,
  unique (organisation_id, external_id)
);
create index suppliers_modified on service.suppliers (organisation_id, modified);

create table service.supplier_contacts (
  id uuid primary key,
  supplier_id uuid not null references service.suppliers,
  name text not null,
  email text not null,
  -- The e-mail in lower case, as the domain compares it: SQL's lower() depends on the database's locale.
  email_key text not null,
  unique (supplier_id, email_key)
);

create table service.supplier_submissions (
  id uuid primary key,
  number bigint generated always as identity,
  organisation_id uuid not null references service.organisations,
  state text not null check (state in ('UNPROCESSED', 'PROCESSED')),
  suppliers jsonb not null,
  state_errors jsonb not null default '{}',
  change_summary jsonb,
  change_warnings jsonb,
  created_by uuid not null,
  created timestamptz not null,
  last_changed timestamptz not null
);
create index on service.supplier_submissions (organisation_id, number) where state = 'UNPROCESSED';
create index submissions_newest on service.supplier_submissions (organisation_id, number);
