-- Shadow flows are gone: a flow that is paused shows by `bridge plan` what it would write.
drop table bridge.shadow_documents;
alter table bridge.flows drop column shadow_kinds, drop column beside, drop column same_erp, drop column promoted,
  drop column replaced_by;
