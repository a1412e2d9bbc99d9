-- Replays that an operator has asked for, each with the set of its documents, which is fixed when it is asked for: a
-- document that begins to match later is not replayed, and one that no longer matches is.
create table bridge.replays (
  id bigint generated always as identity primary key,
  -- What the operator saw: the filter in words, and who asked.
  title text not null,
  asked_by text not null,
  asked timestamptz not null,
  stopped timestamptz,
  finished timestamptz
);
create index replays_open on bridge.replays (id) where stopped is null and finished is null;

create table bridge.replay_documents (
  replay bigint not null references bridge.replays on delete cascade,
  flow text not null,
  kind text not null,
  key text not null,
  -- When it was made due; null while its turn has not come.
  handed_over timestamptz,
  primary key (replay, flow, kind, key)
);
create index replay_documents_left on bridge.replay_documents (replay) where handed_over is null;
