import { randomUUID } from 'node:crypto';
import type { JobWork } from './job-work.ts';

/** CREATE_SOURCING_REQUEST: creates a request that events can serve. It updates no feed. */
export const createSourcingRequest: JobWork<'CREATE_SOURCING_REQUEST'> = {
  apply: async (unit, { payload, job, now }) => {
    const id = randomUUID();
    await unit.tx.query(
      `insert into service.sourcing_requests (id, organisation_id, created_by, created, modified, name, description,
         reference_id, requested_by, needed_by, category, tags, items, bot, bidding_deadline, item_fields)
       values ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
      [
        id,
        job.organisationId,
        job.createdBy,
        now,
        payload.name,
        payload.description,
        payload.reference_id ?? null,
        payload.requested_by ?? null,
        payload.needed_by ?? null,
        payload.category ?? null,
        JSON.stringify(payload.tags),
        JSON.stringify(payload.items),
        payload.bot ?? null,
        payload.bidding_deadline ?? null,
        JSON.stringify(payload.item_fields),
      ],
    );
    return { createdEntity: id };
  },
};
