/** The attempts to deliver, of the rows where the service keeps them. */

/**
 * A table for a `from` clause: an accepted attempt stands in the row of its delivery, all others in rows of their own.
 */
export const deliveryAttempts = `(
  select delivery_id, number, status, error, operator_error, response_excerpt from service.delivery_attempts
  union all
  select id, attempts, accepted_status, null, null, accepted_excerpt from service.deliveries
  where accepted_at is not null)`;
