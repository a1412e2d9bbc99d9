-- What an event or a request is linked with stands in its own row, in its order.

-- Ids of `files`. A file that was deleted for its age stays named here, and is shown no more.
alter table service.sourcing_events add column files uuid[] not null default '{}';
alter table service.sourcing_requests add column files uuid[] not null default '{}';
update service.sourcing_events e set files = l.files
  from (select event_id, array_agg(file_id order by position) as files from service.event_files group by event_id) l
  where l.event_id = e.id;
update service.sourcing_requests r set files = l.files
  from (select request_id, array_agg(file_id order by position) as files from service.request_files group by request_id) l
  where l.request_id = r.id;
drop table service.event_files;
drop table service.request_files;

-- Requests are never deleted.
alter table service.sourcing_events add column sourcing_requests uuid[] not null default '{}';
update service.sourcing_events e set sourcing_requests = l.requests
  from (select event_id, array_agg(request_id order by position) as requests from service.event_requests group by event_id) l
  where l.event_id = e.id;
create index events_of_request on service.sourcing_events using gin (sourcing_requests);
drop table service.event_requests;
