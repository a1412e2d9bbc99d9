-- A key of a document that holds an erased address gets another one, with what a shadow would do with the document.
alter table bridge.shadow_documents drop constraint shadow_documents_flow_kind_key_fkey,
  add foreign key (flow, kind, key) references bridge.flow_documents on delete cascade on update cascade;
