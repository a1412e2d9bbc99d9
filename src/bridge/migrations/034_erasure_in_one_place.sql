-- Erased persons are not remembered: the person is erased at the source first, and what it still shows comes back.

drop table bridge.erasure_deliveries;
drop table bridge.erasures;
drop table bridge.erased_persons;
