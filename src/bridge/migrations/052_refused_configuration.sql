-- Why a process works on with the configuration of before, and not with what stands in its file; null: it does not.
alter table bridge.processes add column refused_configuration text;
