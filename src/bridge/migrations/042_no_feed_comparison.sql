-- Audits compare the feeds with the mirror; a comparison asks the ERP alone.
drop table bridge.reconciliation_feed_findings;
drop table bridge.reconciliation_windows;
drop table bridge.reconciliation_feeds;
