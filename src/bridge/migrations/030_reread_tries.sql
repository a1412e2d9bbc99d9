-- How often a range could not be read again, as the feed showed nothing: each time it waits longer.
alter table bridge.rereads add column tries int not null default 0;
