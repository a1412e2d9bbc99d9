/**
 * The `job` document: what became of a job, in the service's words. It is made of the job as it was read last, in every
 * status. No filter of events applies to it, and it is never withdrawn.
 */
import { z } from 'zod';
import type { JobDocument } from '#connector/documents.ts';
import { timestamp } from '#contract/scalars.ts';
import { linksJob } from './document-keys.ts';
import { faultsOf } from './job-faults.ts';
import { type MadeDocument, making, readRecord, Unmade } from './made-document.ts';

/** A job as it was read last. */
export interface HeldJob {
  readonly object: unknown;
  /** The reference of what it makes; undefined where no intake of the bridge has sent it. */
  readonly reference: string | undefined;
}

const jobForm = z.looseObject({
  type: z.string().default(''),
  status: z.string(),
  created: timestamp.optional(),
  created_entity: z.string().optional(),
  errors: z.unknown().optional(),
  detail: z.looseObject({ errors: z.unknown().optional() }).optional(),
});

/** Makes the document. Never throws for any content of the job. */
export function makeJobDocument({ key, held }: { key: string; held: HeldJob | undefined }): MadeDocument<JobDocument> {
  return making(() => {
    if (held === undefined) throw new Unmade('not-yet', 'the job has not been read yet');
    const {
      type,
      status,
      created,
      created_entity: entity,
      errors,
      detail,
    } = readRecord(jobForm, held.object, 'the job');
    if (type === linksJob) throw new Unmade('held', 'it only makes links to files: no document is made of it');
    return {
      made: 'document',
      wanted: true,
      document: {
        kind: 'job',
        key,
        type,
        status,
        ...(created === undefined ? {} : { created }),
        ...(entity === undefined ? {} : { created_entity: entity }),
        ...(held.reference === undefined ? {} : { reference_id: held.reference }),
        errors: [...faultsOf(errors), ...faultsOf(detail?.errors)],
      },
    };
  });
}
