/** The attempts to deliver, of the rows where the service keeps them. */

/** A table for a `from` clause. */
export const deliveryAttempts = `(
  select d.id as delivery_id, a.number, a.status, a.error, a.operator_error, a.response_excerpt
  from service.deliveries d cross join jsonb_to_recordset(d.attempt_log)
    as a (number int, status int, error text, operator_error text, response_excerpt text))`;
