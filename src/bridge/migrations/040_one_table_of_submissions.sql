-- Jobs of requisitions are submissions like those of suppliers, with the same life: they stand in one table.
-- `intent`, `sent`, `uncertain`: open. `processed`, of a job `completed` or `failed`: its outcome is known. `released`: it
-- certainly did not take effect. `held`: it may have taken effect, and a person has to say.
alter table bridge.intake_submissions rename column suppliers to records;
alter table bridge.intake_submissions
  -- The attempts say it.
  drop column refused,
  -- Of a job: the event that it is for, and what it does: `create`, `update` or `attach`. Null: suppliers.
  add column event uuid references bridge.intake_events on delete cascade,
  add column kind text,
  -- Of a job, JSON: the body of the POST, and what it was made of.
  add column payload text,
  add column made_of text;
insert into bridge.intake_submissions
    (id, intake, source, state, records, created, ends, posts, uuid, looks, next_look, ended, last_error,
     event, kind, payload, made_of)
  select id, intake, source, state, json_array_length(made_of::json -> 'members'), created, ends, posts, uuid, looks,
    next_look, ended, last_error, event, kind, payload, made_of
  from bridge.intake_jobs;
drop table bridge.intake_jobs;
create unique index intake_submissions_of_event on bridge.intake_submissions (event)
  where state in ('intent', 'sent', 'uncertain');
create index intake_submissions_by_event on bridge.intake_submissions (event) where event is not null;

-- Of the versions before, only the time of the last one is asked for: what an echo of a flow is compared with.
alter table bridge.intake_records add column seen_before timestamptz;
update bridge.intake_records r set seen_before = v.seen
  from bridge.intake_versions v
  where v.intake = r.intake and v.erp_key = r.erp_key and v.version = r.version - 1;
drop table bridge.intake_versions;
