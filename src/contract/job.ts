/** Asynchronous jobs: a type, a path and a payload each. Source: API document, "Job"; type names from the decisions. */
import { z } from 'zod';
import { asAttachPayload, generateFileDownloadLinksPayload, sentFilesForEvent, sentFilesForRequest } from './file.ts';
import { listQuery } from './list.ts';
import { text, timestamp, timestampInQuery, uuid } from './scalars.ts';
import {
  asEventPayload,
  asTemplatePayload,
  asUpdatePayload,
  sentEventFromTemplate,
  sentEventUpdate,
  sentSourcingEvent,
} from './sourcing-event.ts';
import { asRequestPayload, sentSourcingRequest } from './sourcing-request.ts';

/** The payload of each type, and the last part of its path; `otherPath` is that of the public pages. */
export const jobTypes = {
  CREATE_SOURCING_EVENT: { path: 'create-sourcing-events', payload: asEventPayload(sentSourcingEvent) },
  CREATE_SOURCING_EVENT_FROM_TEMPLATE: {
    path: 'create-sourcing-events-from-template',
    payload: asTemplatePayload(sentEventFromTemplate),
  },
  CREATE_SOURCING_REQUEST: { path: 'create-sourcing-requests', payload: asRequestPayload(sentSourcingRequest) },
  UPDATE_SOURCING_EVENT: {
    path: 'update-sourcing-event',
    otherPath: 'update-sourcing-events',
    payload: asUpdatePayload(sentEventUpdate),
  },
  ATTACH_FILES_TO_SOURCING_REQUEST: {
    path: 'attach-files-to-sourcing-request',
    payload: asAttachPayload(sentFilesForRequest),
  },
  ATTACH_FILES_TO_SOURCING_EVENT: {
    path: 'attach-files-to-sourcing-event',
    payload: asAttachPayload(sentFilesForEvent),
  },
  GENERATE_FILE_DOWNLOAD_LINKS: { path: 'generate-file-download-links', payload: generateFileDownloadLinksPayload },
} as const satisfies Record<string, { path: string; otherPath?: string; payload: z.ZodType }>;

export type JobType = keyof typeof jobTypes;
export const jobTypeNames = Object.keys(jobTypes) as [JobType, ...JobType[]];

/** The last parts of the paths of a job type: ours, and that of the public pages where it differs. */
export function jobPathsOf(type: JobType): string[] {
  const row: { path: string; otherPath?: string } = jobTypes[type];
  return row.otherPath === undefined ? [row.path] : [row.path, row.otherPath];
}

export type JobPayload<Type extends JobType> = z.output<(typeof jobTypes)[Type]['payload']>;

/** The body of `POST /api/jobs`: the type and the members of that type's payload. */
export const jobRequest = z
  .discriminatedUnion('type', [
    asEventPayload(sentSourcingEvent.extend({ type: z.literal('CREATE_SOURCING_EVENT') })),
    asTemplatePayload(sentEventFromTemplate.extend({ type: z.literal('CREATE_SOURCING_EVENT_FROM_TEMPLATE') })),
    asRequestPayload(sentSourcingRequest.extend({ type: z.literal('CREATE_SOURCING_REQUEST') })),
    asUpdatePayload(sentEventUpdate.extend({ type: z.literal('UPDATE_SOURCING_EVENT') })),
    asAttachPayload(sentFilesForRequest.extend({ type: z.literal('ATTACH_FILES_TO_SOURCING_REQUEST') })),
    asAttachPayload(sentFilesForEvent.extend({ type: z.literal('ATTACH_FILES_TO_SOURCING_EVENT') })),
    generateFileDownloadLinksPayload.extend({ type: z.literal('GENERATE_FILE_DOWNLOAD_LINKS') }),
  ])
  .meta({ id: 'JobRequest' });

/** `RUNNING`: files that were named are being uploaded. */
export const jobStatuses = ['PENDING', 'RUNNING', 'COMPLETED', 'FAILED'] as const;

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

const fileToUpload = z
  .looseObject({
    file_name: text(255),
    upload_url: z.string().describe('Pre-signed: PUT the bytes of the file there, without a key, within an hour.'),
  })
  .meta({ id: 'FileToUpload' });

/** A job in an answer. A reader accepts any text as `status` and `type`, because other services have other values. */
export const job = z
  .looseObject({
    id: uuid,
    type: z.string().describe(`One of ${jobTypeNames.join(', ')}.`),
    status: z.string().describe('`PENDING`, then `COMPLETED` or `FAILED`; `RUNNING` while named files are uploaded.'),
    created: timestamp,
    created_entity: uuid.optional().describe('Of a create job that completed: the event or request.'),
    errors: z
      .array(z.looseObject({ path: z.string().optional(), message: z.string() }))
      .optional()
      .describe('Of a job that failed.'),
    detail: z
      .looseObject({
        data: z.array(fileOutcome),
        errors: z.array(fileFault),
        files: z.array(fileToUpload).optional().describe('While the job is `RUNNING`: where its files are uploaded.'),
      })
      .optional()
      .describe('Of file jobs.'),
  })
  .meta({ id: 'Job' });
