-- Shadow flows: they run beside a live flow and write nothing.

-- The kinds of a shadow. Its `kinds` are empty, so nothing of it can be sent, counted as waiting or alerted of.
alter table bridge.flows add column shadow_kinds text[] not null default '{}';
-- The live flow that a shadow is compared with, and whether both have the same connector with the same settings.
alter table bridge.flows add column beside text;
alter table bridge.flows add column same_erp boolean not null default false;
-- When `bridge promote` made it the live one, and which flow took its place.
alter table bridge.flows add column promoted timestamptz;
alter table bridge.flows add column replaced_by text;

-- What a shadow would do with each of its documents, as its last examination found it: one row a document, replaced by
-- the next.
create table bridge.shadow_documents (
  flow text not null,
  kind text not null,
  key text not null,
  examined timestamptz not null,
  -- `create`, `amend`, `cancel`, `none`, `reject`, `hold` or `wait`.
  action text not null,
  -- Why it is not made; or what the connector says that it would do.
  steps text[] not null,
  -- Whether the live flow sends something else; `differences` are the first of them, field by field.
  differs boolean not null,
  differences text[] not null,
  -- What the live flow does with it: `document`, `withdrawn`, `rejected`, `held`, `not-yet`, or `none`: it does not take
  -- this kind.
  live text not null,
  content_hash text,
  -- The newest stamp of the records that it was made of; null where they have none.
  changed timestamptz,
  primary key (flow, kind, key),
  foreign key (flow, kind, key) references bridge.flow_documents on delete cascade
);
create index shadow_documents_by_action on bridge.shadow_documents (flow, action, differs);
