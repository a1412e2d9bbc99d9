-- Restores of this database from a backup: the ERPs and the sources are newer than what it holds.

create table bridge.restores (
  id bigint generated always as identity primary key,
  restored timestamptz not null,
  -- When the backup was made; null where nobody has said it.
  backup_made timestamptz,
  -- When everything was read again and every document was confirmed.
  ended timestamptz
);

-- Set by a restore, until everything that the source had changed by then is in the mirror. Until then the flow sends
-- nothing: it would set the ERP back to what the older mirror holds.
alter table bridge.flows add column restored timestamptz;

-- The documents that a lookup has not confirmed yet.
create index flow_documents_uncertain on bridge.flow_documents (flow)
  where uncertain_since is not null and due is not null and dead_since is null;
