-- Each process counts its requests in memory; two processes meet at the source's 429.
drop function bridge.take_quota(text, text, timestamptz, timestamptz, int[], int[], timestamptz[]);
drop function bridge.pause_quota(text, text, timestamptz, timestamptz, bigint, bigint, bigint);
drop function bridge.count_quota_use(text, text, int, timestamptz);
drop function bridge.quota_stay(int);
drop function bridge.quota_slot_width(int);
drop table bridge.quota_uses;
drop table bridge.quota_pauses;
