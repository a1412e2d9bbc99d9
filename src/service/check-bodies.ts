/** The thread that checks large bodies: it knows the endpoints by their tables, and calls none of them. */
import { serveBodyChecks } from '#platform/http/body-thread.ts';
import { operatorApi, organisationApi } from './api.ts';

serveBodyChecks([...operatorApi({} as never), ...organisationApi({} as never)]);
