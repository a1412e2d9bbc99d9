/**
 * Sourcing requests under `/api/manage`, for integrations: what was sent, the attached files, and the events that serve
 * the request. Source: decisions, "Added after the first version was judged".
 */
import type { z } from 'zod';
import { manageItem, manageList } from '#contract/list.ts';
import { uuid } from '#contract/scalars.ts';
import { managedRequestsQuery, managedSourcingRequest } from '#contract/sourcing-request.ts';
import { AppError } from '#platform/errors.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { answerList } from '../list-envelope.ts';
import { readManageItem, readManageList } from '../manage-envelope.ts';

const path = '/api/manage/sourcing_requests';

type Request = z.input<typeof managedSourcingRequest>;

/** The columns of an answer, from `page`, which has a request's row. */
const shown = `id as uuid, created, modified, name, description, reference_id, requested_by, needed_by, category, tags, bot, bidding_deadline,
  items, item_fields,
  coalesce((select json_agg(json_build_object('file_uuid', f.id, 'file_name', f.file_name) order by attached.place)
            from unnest(page.files) with ordinality as attached (id, place)
            join service.files f on f.id = attached.id and f.state = 'file'), '[]') as files,
  array(select e.id::text from service.sourcing_events e
        where e.sourcing_requests @> array[page.id] and e.status <> 'DELETED' order by e.created, e.id) as sourcing_events`;

/**
 * GET /api/manage/sourcing_requests: the organisation's requests, newest first. A request that is created while a client
 * reads page after page moves the others to later pages: the client may see one twice, and misses none.
 */
export const listManagedRequests = endpoint<Caller, z.ZodUndefined, typeof managedRequestsQuery>({
  method: 'GET',
  path,
  scope: 'jobs',
  orScope: 'manage',
  limit: 'jobs_read',
  summary: 'List sourcing requests',
  answers: { 200: manageList(managedSourcingRequest) },
  query: managedRequestsQuery,
  handle: async ({ query, baseUrl, caller: { unit, organisationId } }) => {
    const { reference_id: referenceId, modified_after: modifiedAfter } = query;
    const body = await readManageList(
      unit.tx,
      path,
      {
        select: `select * from service.sourcing_requests
                 where organisation_id = $1 and ($2::text is null or reference_id = $2)
                   and ($3::timestamptz is null or modified >= $3)`,
        shown,
        orderBy: 'created desc, id',
        params: [organisationId, referenceId ?? null, modifiedAfter ?? null],
        query,
        url: baseUrl + path,
        filters: { reference_id: referenceId, modified_after: modifiedAfter },
      },
      (row: Request) => row,
    );
    return answerList(body);
  },
});

/** GET /api/manage/sourcing_requests/{uuid}: one request. */
export const readManagedRequest = endpoint<Caller>({
  method: 'GET',
  path: `${path}/:uuid`,
  scope: 'jobs',
  orScope: 'manage',
  limit: 'jobs_read',
  summary: 'Read a sourcing request',
  answers: { 200: manageItem(managedSourcingRequest) },
  handle: async ({ params, caller: { unit, organisationId } }) => {
    const id = uuid.safeParse(params['uuid']);
    const body = await readManageItem(
      unit.tx,
      {
        endpoint: `${path}/{uuid}`,
        select: `select ${shown} from service.sourcing_requests as page where organisation_id = $1 and id = $2`,
        // Text that is no UUID names no request.
        params: [organisationId, id.success ? id.data : null],
      },
      (row: Request) => row,
    );
    if (!body) throw new AppError('not-found', 'There is no such sourcing request.');
    return { status: 200, body };
  },
});
