-- The console lists documents by their latest change, whatever it was.
create index flow_documents_changed on bridge.flow_documents
  ((coalesce(greatest(delivered, waiting_since, dead_since), 'epoch'::timestamptz)));
