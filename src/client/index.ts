/** The typed client of a sourcing service: `import { createClient } from 'sourcing-bridge/client'`. */

export { AppError } from '#platform/errors.ts';
export { type ClientOptions, createClient, type SourcingClient } from './create-client.ts';
export type { JobInput, SubmittedJob } from './job-calls.ts';
export type { ListPage } from './list-page.ts';
export type { Bucket, Quotas } from './quotas.ts';
export type { ApiCall } from './send-call.ts';
export type { FeedPage, FeedWindow } from './source-client.ts';
export type { SupplierQuery } from './supplier-calls.ts';
