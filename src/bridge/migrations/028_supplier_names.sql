-- Only suppliers are looked for by their reference. One index entry less for each event.
drop index bridge.subjects_by_reference;
create index subjects_by_reference on bridge.subjects (source, reference) where kind = 'supplier' and reference <> '';

-- Another mark after each transaction that writes names of suppliers: a pull that remembers which of them are written
-- sees whether that still holds.
create table bridge.supplier_marks (
  source text primary key,
  mark uuid not null
);
