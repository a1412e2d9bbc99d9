-- One operator token, the setting; one retention for all organisations; a key with the scope `desk` speaks for both sides.

drop table service.operators;
drop table service.replaced_tokens;
alter table service.organisations drop column retention;

-- A key for one side must not act for the other one from now on.
update service.api_keys set revoked_at = coalesce(revoked_at, clock_timestamp()) where desk_side is not null;
alter table service.api_keys
  drop constraint desk_supplier,
  drop column desk_side,
  drop column desk_supplier_id;
