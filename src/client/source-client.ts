/**
 * The client of a sourcing service's API, ours or somebody else's: typed, within its quotas, with transient errors
 * retried and `Retry-After` kept. Unknown fields and enum values pass through. Every call throws AppError, with the
 * service's own words where there are any; what passes has the recovery `retry`.
 */
import { parseInput } from '#platform/input.ts';
import { createDownload, type Download } from './download-file.ts';
import { createJobCalls, type JobCalls } from './job-calls.ts';
import { createReadFeed, type ReadFeed } from './read-feed.ts';
import { type CallApi, type ClientDeps, createSender } from './send-call.ts';
import { createSupplierCalls, type SupplierCalls } from './supplier-calls.ts';
import { createWebhookCalls, type WebhookCalls } from './webhook-calls.ts';

export type { SubmittedJob } from './job-calls.ts';
export type { FeedPage, FeedWindow } from './read-feed.ts';

export interface SourceClient extends SupplierCalls, JobCalls, WebhookCalls {
  /** One page. `at` is a filter, or the `next` of an earlier page. */
  readonly readFeed: ReadFeed;
  /** The bytes behind a link that the service gave. */
  readonly download: Download;
  /** Any other call; the answer's body read through `schema`. */
  readonly call: CallApi;
}

export function createSourceClient(deps: ClientDeps): SourceClient {
  const send = createSender(deps);
  const call: CallApi = async (request, schema, signal) => {
    const { body } = await send(request, { signal });
    return parseInput(schema, body, `The answer to ${request.method} ${request.path.split('?')[0]}`);
  };
  return {
    call,
    readFeed: createReadFeed({ send, clock: deps.clock }),
    download: createDownload(deps),
    ...createSupplierCalls(call),
    ...createJobCalls({ call, clock: deps.clock }),
    ...createWebhookCalls(call),
  };
}
