/** Asynchronous jobs: a type, a path and a payload each. Source: API document, "Job"; type names from the decisions. */
import { z } from 'zod';
import {
  attachFilesToSourcingEventPayload,
  attachFilesToSourcingRequestPayload,
  generateFileDownloadLinksPayload,
} from './file.ts';
import { listQuery } from './list.ts';
import { text, timestamp, timestampInQuery, uuid } from './scalars.ts';
import { createSourcingEventPayload, eventChanges } from './sourcing-event.ts';
import { createSourcingRequestPayload } from './sourcing-request.ts';

/** The payload of each type, and the last part of its path. */
export const jobTypes = {
  CREATE_SOURCING_EVENT: { path: 'create-sourcing-events', payload: createSourcingEventPayload },
  CREATE_SOURCING_EVENT_FROM_TEMPLATE: {
    path: 'create-sourcing-events-from-template',
    payload: eventChanges.extend({ template: uuid }).meta({ id: 'CreateSourcingEventFromTemplate' }),
  },
  CREATE_SOURCING_REQUEST: { path: 'create-sourcing-requests', payload: createSourcingRequestPayload },
  UPDATE_SOURCING_EVENT: {
    path: 'update-sourcing-event',
    payload: eventChanges.extend({ sourcing_event: uuid }).meta({ id: 'UpdateSourcingEvent' }),
  },
  ATTACH_FILES_TO_SOURCING_REQUEST: {
    path: 'attach-files-to-sourcing-request',
    payload: attachFilesToSourcingRequestPayload,
  },
  ATTACH_FILES_TO_SOURCING_EVENT: {
    path: 'attach-files-to-sourcing-event',
    payload: attachFilesToSourcingEventPayload,
  },
  GENERATE_FILE_DOWNLOAD_LINKS: { path: 'generate-file-download-links', payload: generateFileDownloadLinksPayload },
} as const satisfies Record<string, { path: string; payload: z.ZodObject }>;

export type JobType = keyof typeof jobTypes;
export const jobTypeNames = Object.keys(jobTypes) as [JobType, ...JobType[]];

export type JobPayload<Type extends JobType> = z.output<(typeof jobTypes)[Type]['payload']>;

/** The body of `POST /api/jobs`: the type and the members of that type's payload. */
export const jobRequest = z
  .discriminatedUnion('type', [
    jobTypes.CREATE_SOURCING_EVENT.payload.extend({ type: z.literal('CREATE_SOURCING_EVENT') }),
    jobTypes.CREATE_SOURCING_EVENT_FROM_TEMPLATE.payload.extend({
      type: z.literal('CREATE_SOURCING_EVENT_FROM_TEMPLATE'),
    }),
    jobTypes.CREATE_SOURCING_REQUEST.payload.extend({ type: z.literal('CREATE_SOURCING_REQUEST') }),
    jobTypes.UPDATE_SOURCING_EVENT.payload.extend({ type: z.literal('UPDATE_SOURCING_EVENT') }),
    jobTypes.ATTACH_FILES_TO_SOURCING_REQUEST.payload.extend({ type: z.literal('ATTACH_FILES_TO_SOURCING_REQUEST') }),
    jobTypes.ATTACH_FILES_TO_SOURCING_EVENT.payload.extend({ type: z.literal('ATTACH_FILES_TO_SOURCING_EVENT') }),
    jobTypes.GENERATE_FILE_DOWNLOAD_LINKS.payload.extend({ type: z.literal('GENERATE_FILE_DOWNLOAD_LINKS') }),
  ])
  .meta({ id: 'JobRequest' });

export const jobStatuses = ['PENDING', 'COMPLETED', 'FAILED'] as const;

/** Both bounds are inclusive. */
export const listJobsQuery = z.strictObject({
  ...listQuery,
  type: z.enum(jobTypeNames).optional(),
  status: z.enum(jobStatuses).optional(),
  created_after: timestampInQuery.optional().describe('Only jobs submitted at this time or later.'),
  created_before: timestampInQuery.optional().describe('Only jobs submitted at this time or earlier.'),
});

const fileOutcome = z
  .looseObject({
    file_uuid: uuid.optional(),
    file_name: text(255).optional(),
    download_url: z.string().optional().describe('Pre-signed: it needs no key, and works for 60 seconds.'),
  })
  .meta({ id: 'FileResult' });

const fileFault = z
  .looseObject({
    file_uuid: uuid.optional(),
    file_name: z.string().optional(),
    error: z.string().describe('Like `not_found`.'),
  })
  .meta({ id: 'FileError' });

/** A job in an answer. A reader accepts any text as `status` and `type`, because other services have other values. */
export const job = z
  .looseObject({
    id: uuid,
    type: z.string().describe(`One of ${jobTypeNames.join(', ')}.`),
    status: z.string().describe('`PENDING`, then `COMPLETED` or `FAILED`.'),
    created: timestamp,
    created_entity: uuid.optional().describe('Of a create job that completed: the event or request.'),
    errors: z
      .array(z.looseObject({ path: z.string().optional(), message: z.string() }))
      .optional()
      .describe('Of a job that failed.'),
    detail: z
      .looseObject({ data: z.array(fileOutcome), errors: z.array(fileFault) })
      .optional()
      .describe('Of file jobs.'),
  })
  .meta({ id: 'Job' });
