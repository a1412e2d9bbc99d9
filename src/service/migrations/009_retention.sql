-- How long an organisation's things are kept.

-- `{"submission_days": 30}`: what is left out is the setting of the service.
alter table service.organisations add column retention jsonb not null default '{}';

-- Each is found by its organisation and its age, without reading what is still kept.
create index submissions_processed on service.supplier_submissions (organisation_id, last_changed)
  where state = 'PROCESSED';
create index jobs_with_payload on service.jobs (organisation_id, created)
  where status <> 'PENDING' and payload <> '{}'::jsonb;
drop index service.deliveries_finished;
create index deliveries_finished on service.deliveries (organisation_id, finished) where finished is not null;
