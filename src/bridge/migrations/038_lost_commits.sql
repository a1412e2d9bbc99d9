-- Commits that this database has lost, by a restore or by a failover to a replica that lagged: the ERPs and the sources
-- are newer than what it holds. One row.
create table bridge.lost_commits (
  one boolean primary key default true check (one),
  -- The cluster's timeline when a process of the bridge last looked; null where none could read it.
  timeline text,
  -- The last loss: when it was noted, and how it was noticed. Null: none is known.
  lost timestamptz,
  why text,
  -- What is newer than this may have been lost, by any of the losses so far; null where nobody has said it.
  since timestamptz,
  -- When everything was read again and looked up; null while it is not.
  caught_up timestamptz
);
insert into bridge.lost_commits (lost, why, since, caught_up)
  select max(restored), case when max(restored) is not null then 'restored' end,
    case when bool_and(backup_made is not null) then min(backup_made) end,
    case when bool_and(ended is not null) then max(ended) end
  from bridge.restores;
drop table bridge.restores;

-- The flag of a flow: set when commits were lost, null again when the flow has caught up.
alter table bridge.flows rename column restored to commits_lost;
-- When its source was read again up to then. Until then the flow sends nothing; from then on every document is looked up
-- in the ERP before it is written.
alter table bridge.flows add column source_reread timestamptz;
update bridge.flows set source_reread = now() where commits_lost is not null and confirmed_kind is not null;
alter table bridge.flows drop column confirmed_kind, drop column confirmed_key, drop column confirm_error;

-- The timeline of the cluster: another one after every promotion of a replica. Null in recovery, and where the server
-- does not tell it.
create function bridge.cluster_timeline() returns text language plpgsql as $$
begin
  return case when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_lsn()), 8) end;
exception when insufficient_privilege or undefined_function or feature_not_supported
  or object_not_in_prerequisite_state then
  return null;
end $$;
