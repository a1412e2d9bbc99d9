-- breaking: a process of the version before reads what is dropped here
-- A replay of dead letters makes all of them due at once.
drop table bridge.replay_documents;
drop table bridge.replays;

-- What people have written down of a refused document stands in its row.
alter table bridge.flow_documents add column note jsonb;
update bridge.flow_documents d
set note = jsonb_build_object('lookedAfterBy', n.looked_after_by, 'decision', n.decision, 'notedBy', n.noted_by,
  'noted', to_char(n.noted at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
from bridge.document_notes n where n.flow = d.flow and n.kind = d.kind and n.key = d.key;
drop table bridge.document_notes;
