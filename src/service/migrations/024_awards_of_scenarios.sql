-- The awards of a scenario stand in its row: they are read and saved as a whole, under the lock of the event.

-- `[{lotId, supplierId, share}]`, in the order of these ids: a feed record with the same content must have the same text.
alter table service.scenarios add column awards jsonb not null default '[]';
update service.scenarios s set awards = a.awards
  from (select event_id, scenario, jsonb_agg(jsonb_build_object('lotId', lot_id, 'supplierId', supplier_id, 'share', share)
          order by lot_id, supplier_id) as awards
        from service.scenario_awards group by event_id, scenario) a
  where a.event_id = s.event_id and a.scenario = s.name;
drop table service.scenario_awards;
