-- The totals of a comparison stand in its row, and change with its position in one statement.

-- How many documents are in each state, by currency: `as delivered`, or one of the findings. Each document that was
-- compared is counted once. JSON, `[{kind, currency, state, documents, amount}]`; `currency` is null where the documents
-- have no amount.
alter table bridge.reconciliations add column totals jsonb not null default '[]';
update bridge.reconciliations r set totals = t.totals
  from (select run, jsonb_agg(jsonb_build_object('kind', kind, 'currency', nullif(currency, ''), 'state', state,
          'documents', documents, 'amount', amount)) as totals
        from bridge.reconciliation_totals group by run) t
  where t.run = r.id;
drop table bridge.reconciliation_totals;
