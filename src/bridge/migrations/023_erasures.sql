-- Persons who were erased, and the erasures under way.

-- One row for each erased person: a tombstone. What a source or an ERP shows later is stored without the address. It can
-- be recognised, and not be read: `scrypt` is the slow hash of the address with `salt`; `prefix`, two bytes of a fast
-- one, tells which addresses are worth the slow one.
create table bridge.erased_persons (
  -- Stands in the place of the address, as `erased-<mark>@erased.invalid`.
  mark text primary key,
  prefix bytea not null,
  salt bytea not null,
  scrypt bytea not null,
  erased timestamptz not null
);
create index erased_persons_by_prefix on bridge.erased_persons (prefix);

-- One run. A run that was interrupted goes on when it is asked for again: after `done`, the last table that it has
-- finished. `removed` counts the rows by table, JSON; both change with the rows.
create table bridge.erasures (
  id uuid primary key,
  mark text not null references bridge.erased_persons,
  started timestamptz not null,
  done text not null default '',
  removed jsonb not null default '{}',
  ended timestamptz
);
create unique index erasures_open on bridge.erasures (mark) where ended is null;

-- Which documents had named the person when they were sent: the ERPs still have what was delivered.
create table bridge.erasure_deliveries (
  mark text not null references bridge.erased_persons,
  flow text not null,
  kind text not null,
  key text not null,
  primary key (mark, flow, kind, key)
);

-- A key of the ERP that holds the address gets another one, with all that names it.
alter table bridge.intake_members drop constraint intake_members_intake_erp_key_fkey,
  add foreign key (intake, erp_key) references bridge.intake_records on delete cascade on update cascade;
alter table bridge.intake_acknowledgements drop constraint intake_acknowledgements_intake_erp_key_fkey,
  add foreign key (intake, erp_key) references bridge.intake_records on delete cascade on update cascade;

-- The audit log keeps that a person was erased, and no longer the person's address: the only change of an entry that is
-- allowed replaces that address by a mark, and changes nothing else.
create function bridge.without_address(given text, address text, mark text) returns text language sql immutable as $$
  select regexp_replace(given,
    '(?<![a-z0-9._%+-])' || regexp_replace(address, '([^a-z0-9])', '\\\1', 'g') || '(?![a-z0-9_-])(?!\.[a-z0-9])',
    mark, 'gi')
$$;

create or replace function bridge.keep_actions() returns trigger language plpgsql as $$
declare
  address text := current_setting('sourcing.erased_address', true);
  mark text := current_setting('sourcing.erased_mark', true);
begin
  if tg_op = 'DELETE' and old.at < now() - interval '30 days' then
    return old;
  end if;
  if tg_op = 'UPDATE' and address ~ '^[^\s@]+@[^\s@]+$' and mark ~ '^erased-[0-9a-f]{12}@erased\.invalid$'
    and (new.id, new.at, new.actor, new.what, new.outcome) = (old.id, old.at, old.actor, old.what, old.outcome)
    and new.name = bridge.without_address(old.name, address, mark)
    and new.object is not distinct from bridge.without_address(old.object, address, mark)
    and new.origin is not distinct from bridge.without_address(old.origin, address, mark)
    and new.details = bridge.without_address(old.details, address, mark)
  then
    return new;
  end if;
  raise exception 'the audit log is only appended to: % is refused', lower(tg_op)
    using errcode = 'insufficient_privilege';
end $$;

-- Returns how many entries named the address.
create function bridge.erase_in_actions(address text, mark text) returns bigint language plpgsql as $$
declare
  entries bigint;
begin
  perform set_config('sourcing.erased_address', address, true), set_config('sourcing.erased_mark', mark, true);
  update bridge.actions set name = bridge.without_address(name, address, mark),
      object = bridge.without_address(object, address, mark), origin = bridge.without_address(origin, address, mark),
      details = bridge.without_address(details, address, mark)
    where position(address in lower(name || ' ' || coalesce(object, '') || ' ' || coalesce(origin, '') || ' ' || details)) > 0
      and bridge.without_address(name || ' ' || coalesce(object, '') || ' ' || coalesce(origin, '') || ' ' || details,
        address, mark) <> name || ' ' || coalesce(object, '') || ' ' || coalesce(origin, '') || ' ' || details;
  get diagnostics entries = row_count;
  perform set_config('sourcing.erased_address', '', true), set_config('sourcing.erased_mark', '', true);
  return entries;
end $$;
