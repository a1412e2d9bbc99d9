-- The names that `fields` of a supplier may use stand with the organisation, in the order they were created.
alter table service.organisations add column supplier_attributes text[] not null default '{}';
update service.organisations o set supplier_attributes = a.names
  from (select organisation_id, array_agg(name order by name) as names
        from service.supplier_attributes group by organisation_id) a
  where a.organisation_id = o.id;
drop table service.supplier_attributes;
