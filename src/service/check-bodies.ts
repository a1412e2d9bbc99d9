/**
 * The thread that checks large bodies: it knows the endpoints by their tables, as the profile has them, and calls none of
 * them.
 */
import { workerData } from 'node:worker_threads';
import { serveBodyChecks } from '#platform/http/body-thread.ts';
import { operatorApi, organisationApi } from './api.ts';
import type { ProfileName } from './profile/profile.ts';
import { profileOf } from './profile/profile-of.ts';

const profile = profileOf(workerData as ProfileName);
serveBodyChecks([...operatorApi({ profile } as never), ...organisationApi({ profile } as never)]);
