-- A delivery belongs to its webhook, and by it to an organisation. So a notification is written without a second foreign
-- key to check, and into one index less, as is its outcome.

alter table service.deliveries drop column organisation_id;
