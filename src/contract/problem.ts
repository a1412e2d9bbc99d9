/** RFC 9457 problem details: the body of every answer from 400 on. */
import { z } from 'zod';

export const problemMediaType = 'application/problem+json';

export const problem = z
  .looseObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    errors: z.array(z.looseObject({ path: z.string(), message: z.string() })).optional(),
    limit_bytes: z.int().optional().describe('Of a refused file: the limit that it exceeds.'),
    used_bytes: z.int().optional().describe('Of a refused file: what the files of the organisation use.'),
    left_bytes: z.int().optional().describe('Of a refused file: what is left for files of the organisation.'),
  })
  .meta({ id: 'Problem' });

export type Problem = z.infer<typeof problem>;
