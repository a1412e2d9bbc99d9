-- What shapes a flow's documents: its source, its kinds and its columns. When that changes, every document is compared
-- again. A flow that is not configured any more has no kinds: nothing is marked for it.
alter table bridge.flows add column shape text not null default '';

-- Old notifications are deleted whether they were answered or not.
drop index bridge.inbox_received;
create index inbox_received on bridge.inbox (received);
