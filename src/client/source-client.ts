/**
 * The client of a sourcing service's API, ours or another implementation. It is typed, keeps within the quotas, retries
 * after transient errors and honours `Retry-After`. Unknown fields and enum values are passed through. Every call
 * throws AppError, with the service's own text if there is one; transient errors have the recovery `retry`.
 */
import { parseInput } from '#platform/input.ts';
import { createDownload, type Download } from './download-file.ts';
import { createJobCalls, type JobCalls } from './job-calls.ts';
import { createReadList, type ReadList } from './list-page.ts';
import { createReadFeed, type ReadFeed } from './read-feed.ts';
import { type CallApi, type ClientDeps, createSender } from './send-call.ts';
import { createSupplierCalls, type SupplierCalls } from './supplier-calls.ts';
import { createUploadFiles, type UploadFiles } from './upload-file.ts';
import { createWebhookCalls, type WebhookCalls } from './webhook-calls.ts';

export type { SubmittedJob } from './job-calls.ts';
export type { FeedPage, FeedWindow } from './read-feed.ts';

export interface SourceClient extends SupplierCalls, JobCalls, WebhookCalls {
  /** Reads one page of a feed. `at` is a window, or the `next` of an earlier page. */
  readonly readFeed: ReadFeed;
  /** Reads one page of any list, of items that the schema parses. */
  readonly readList: ReadList;
  /** Downloads the file of a link that the service returned. */
  readonly download: Download;
  /** Uploads the files of a job that shows where to. */
  readonly uploadFiles: UploadFiles;
  /** Sends any other call, and parses the answer's body by the schema. */
  readonly call: CallApi;
}

/** Creates a client. It opens no connections of its own: `fetch` has them. */
export function createSourceClient(deps: ClientDeps): SourceClient {
  const send = createSender(deps);
  const call: CallApi = async (request, schema, signal) => {
    const { body } = await send(request, signal);
    return parseInput(schema, body, `The answer to ${request.method} ${request.path.split('?')[0]}`);
  };
  const readList = createReadList(send);
  return {
    call,
    readFeed: createReadFeed({ send, clock: deps.clock }),
    readList,
    download: createDownload(deps),
    ...createSupplierCalls({ call, readList }),
    uploadFiles: createUploadFiles(deps),
    ...createJobCalls({ call, clock: deps.clock, dialect: deps.settings.dialect }),
    ...createWebhookCalls({ call, readList }),
  };
}
