-- breaking: a process of the version before reads what is dropped here
-- A replay of dead letters makes all of them due at once.
drop table bridge.replay_documents;
drop table bridge.replays;
