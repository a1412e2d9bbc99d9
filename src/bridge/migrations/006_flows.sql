-- Flows: which documents go to which ERP, and how far each of them has come.

-- A flow that is new here is due for all documents of its source. A flow that is not configured any more has no kinds:
-- nothing is marked for it.
create table bridge.flows (
  name text primary key,
  source text not null,
  kinds text[] not null,
  -- Everything in the settings that decides what its documents are. When it changes, every document is compared again,
  -- and a process whose settings have another fingerprint does not push.
  fingerprint text not null default '',
  -- The connector that its documents were delivered through.
  connector text,
  -- A MAC of the connector's settings: a pause that they caused ends when they have changed.
  settings_mac text,

  -- `operator`, `auth`, `config` or `withdrawals`.
  paused_kind text,
  paused_reason text,
  paused_at timestamptz,
  -- The circuit breaker: it opens after too many failures in a row, and lets one document through after `circuit_until`.
  failures_in_row int not null default 0,
  circuit_until timestamptz,
  -- Until then nothing is sent: the ERP has asked for it.
  throttled_until timestamptz,
  -- A person has agreed to withdraw what began to differ before then.
  withdrawals_agreed timestamptz
);

-- One row for each document of a flow. `wanted` grows whenever a record changes that the document is made of;
-- `reconciled` is the `wanted` that the ERP holds. When the two are equal nothing is to be done, and `due` is null.
-- The intent is committed before the ERP is called, and cleared with the outcome: an intent that is found here later
-- belongs to a call whose end no process saw, and the ERP is asked what it holds before anything is sent again.
create table bridge.flow_documents (
  flow text not null references bridge.flows on delete cascade,
  kind text not null,
  key text not null,
  sourcing_event text,
  -- The supplier that it shows something of: a change of the supplier changes this document.
  supplier text,
  wanted bigint not null default 1,
  reconciled bigint not null default 0,

  due timestamptz,
  -- When the document began to differ from what was delivered; retries do not move it.
  waiting_since timestamptz,
  -- A replay: it is written again even if nothing differs, after the ERP was asked what it holds.
  forced boolean not null default false,
  -- A process that had lost its lease may have made the last call, or the flow got another connector: the ERP is asked
  -- what it holds.
  uncertain_since timestamptz,

  -- What was delivered: its hash, the ERP's reference, and the document, which is null where it is too long to be kept.
  delivered_hash text,
  delivered_body text,
  reference text,
  delivered timestamptz,

  -- `intent_by` is the process that makes the call, `intent_limit_ms` how long after `intent_at` the call ends at the
  -- latest.
  intent_id uuid,
  intent_hash text,
  intent_at timestamptz,
  intent_by text,
  intent_limit_ms int not null default 0,
  -- When a process has seen the end of that call, and whether the ERP had answered it; null while none has.
  call_ended timestamptz,
  call_answered boolean not null default false,

  -- The `wanted` at which the document was found to be a withdrawal: withdrawals are counted before any of them is sent.
  withdraws bigint,
  -- When the ERP took a withdrawal that no person had agreed to.
  withdrawn timestamptz,

  attempts int not null default 0,
  error_type text,
  last_error text,
  dead_since timestamptz,
  primary key (flow, kind, key)
);
create index flow_documents_by_event on bridge.flow_documents (sourcing_event);
create index flow_documents_by_supplier on bridge.flow_documents (supplier) where supplier is not null;
-- The push takes the documents of one kind that have waited longest, without reading past any others.
create index flow_documents_to_push on bridge.flow_documents (flow, kind, due)
  where due is not null and (withdraws = wanted) is not true;
create index flow_documents_to_withdraw on bridge.flow_documents (flow, kind, due)
  where due is not null and withdraws = wanted;
create index flow_documents_to_look_up on bridge.flow_documents (flow, kind, due)
  where due is not null and (intent_id is not null or forced or uncertain_since is not null);
create index flow_documents_withdrawn on bridge.flow_documents (flow, withdrawn) where withdrawn is not null;
-- The status counts these without reading the rows.
create index flow_documents_waiting on bridge.flow_documents (flow, waiting_since) include (kind)
  where waiting_since is not null and dead_since is null;
create index flow_documents_retried on bridge.flow_documents (flow) include (kind)
  where waiting_since is not null and dead_since is null and attempts > 0;
create index flow_documents_dead on bridge.flow_documents (flow, dead_since) include (kind) where dead_since is not null;
-- The latest deliveries, for the console.
create index flow_documents_delivered on bridge.flow_documents (delivered) where delivered is not null;
