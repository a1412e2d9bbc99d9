/**
 * The client of a sourcing service's API, ours or another implementation. It is typed, keeps within the quotas, retries
 * after transient errors and honours `Retry-After`. Unknown fields and enum values are passed through. Every call
 * throws AppError, with the service's own text if there is one; transient errors have the recovery `retry`.
 */
import { AppError } from '#platform/errors.ts';
import { parseInput } from '#platform/input.ts';
import { createDownload, type Download } from './download-file.ts';
import { createJobCalls, type JobCalls } from './job-calls.ts';
import { createReadList, type ReadList } from './list-page.ts';
import { createReadFeed, type ReadFeed } from './read-feed.ts';
import { type ApiCall, type CallApi, type ClientDeps, createSender } from './send-call.ts';
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
  /**
   * Sends a call whose result is read later, and returns the path where: the answer's `Location`. The path can only be
   * one of the same service. Throws AppError `unavailable` for an answer without it.
   */
  readonly submit: SubmitCall;
}

export type SubmitCall = (request: ApiCall, signal?: AbortSignal) => Promise<string>;

/** Creates a client. It opens no connections of its own: `fetch` has them. */
export function createSourceClient(deps: ClientDeps): SourceClient {
  const send = createSender(deps);
  const call: CallApi = async (request, schema, signal) => {
    const { body } = await send(request, { signal });
    return parseInput(schema, body, `The answer to ${request.method} ${request.path.split('?')[0]}`);
  };
  const readList = createReadList(send);
  return {
    call,
    submit: async (request, signal) => {
      const { headers } = await send(request, { signal });
      return pathOfLocation(headers['location'], `${request.method} ${request.path.split('?')[0]}`);
    },
    readFeed: createReadFeed({ send, clock: deps.clock }),
    readList,
    download: createDownload(deps),
    ...createSupplierCalls({ call, readList }),
    uploadFiles: createUploadFiles(deps),
    ...createJobCalls({ call, clock: deps.clock, dialect: deps.settings.dialect }),
    ...createWebhookCalls({ call, readList }),
  };
}

/** A service behind a proxy may name another host and prefix than the client uses: the path counts from `/api` on. */
function pathOfLocation(location: string | undefined, what: string): string {
  const url = URL.parse(location ?? '', 'http://relative.invalid');
  const path = /\/api\/.+$/s.exec(url?.pathname ?? '')?.[0];
  if (url && path !== undefined) return path + url.search;
  throw new AppError('unavailable', `The answer to ${what} has no Location that says where its result is read.`, {
    recovery: { do: 'halt' },
  });
}
