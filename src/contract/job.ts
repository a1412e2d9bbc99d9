/** Asynchronous jobs. Source: API document, "Job". */
import { z } from 'zod';
import { timestamp, uuid } from './scalars.ts';

export const jobTypes = ['CREATE_SOURCING_EVENT'] as const;
export type JobType = (typeof jobTypes)[number];

export const job = z.looseObject({
  id: uuid,
  type: z.string(),
  status: z.string(),
  created: timestamp,
  created_entity: uuid.optional(),
  errors: z.array(z.looseObject({ path: z.string().optional(), message: z.string() })).optional(),
});
