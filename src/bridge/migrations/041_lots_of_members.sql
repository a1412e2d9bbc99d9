-- Which lots of the event are made of a requisition stands with its membership: JSON, `[{"lot": "Bolt", "line": "10"}]`.
alter table bridge.intake_members add column made_lots text not null default '[]';
update bridge.intake_members m
  set made_lots = (select coalesce(json_agg(json_build_object('lot', l.lot, 'line', l.line) order by l.line, l.lot), '[]')::text
                   from bridge.intake_lots l where l.event = m.event and l.erp_key = m.erp_key);
drop table bridge.intake_lots;
