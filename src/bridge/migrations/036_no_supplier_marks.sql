-- Names of suppliers are compared with what is written, not with what a pull remembers.
drop table bridge.supplier_marks;
