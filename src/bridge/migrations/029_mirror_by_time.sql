-- Most records come in the order of their times. In an index that ascends, each of them is added at the end; in one that
-- descends, each goes before all others, and every page of the index is split in halves, of which one stays half empty.
-- PostgreSQL reads an index in both directions.
drop index bridge.mirror_by_time;
create index mirror_by_time on bridge.mirror (source, feed, modified);
