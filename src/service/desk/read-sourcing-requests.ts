import { z } from 'zod';
import { listOf, listQuery } from '#contract/list.ts';
import { uuid } from '#contract/scalars.ts';
import { listedSourcingRequest, sourcingRequest } from '#contract/sourcing-request.ts';
import { AppError } from '#platform/errors.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { loadAttachedFiles } from '../files/find-files.ts';
import { answerList, renderList } from '../list-envelope.ts';

const path = '/desk/sourcing-requests';

type Listed = z.input<typeof listedSourcingRequest>;

/** The columns of an answer, from `page`, which has a request's row. */
const shown = `id, name, description, reference_id, requested_by, needed_by, category, tags, bot, bidding_deadline, created,
  array(select e.id::text from service.sourcing_events e
        where e.sourcing_requests @> array[page.id] and e.status <> 'DELETED' order by e.created, e.id) as sourcing_events`;

const listRequestsQuery = z.strictObject(listQuery);

/** GET /desk/sourcing-requests: newest first. */
export const listSourcingRequests = endpoint<Caller, z.ZodUndefined, typeof listRequestsQuery>({
  method: 'GET',
  path,
  scope: 'desk',
  limit: 'desk',
  summary: 'List sourcing requests',
  answers: { 200: listOf(listedSourcingRequest) },
  query: listRequestsQuery,
  handle: async ({ query, baseUrl, caller: { unit, organisationId } }) => {
    const body = await renderList(
      unit.tx,
      {
        select: 'select * from service.sourcing_requests where organisation_id = $1',
        shown: `${shown}, jsonb_array_length(items) as item_count`,
        orderBy: 'created desc, id',
        params: [organisationId],
        query,
        url: baseUrl + path,
      },
      (row: Listed) => row,
    );
    return answerList(body);
  },
});

/** GET /desk/sourcing-requests/{id}: one request with its items, its files, and the events that serve it. */
export const readSourcingRequest = endpoint<Caller>({
  method: 'GET',
  path: `${path}/:id`,
  scope: 'desk',
  limit: 'desk',
  summary: 'Read a sourcing request',
  answers: { 200: sourcingRequest },
  handle: async ({ params, caller: { unit, organisationId } }) => {
    const id = uuid.safeParse(params['id']);
    const [row] = id.success
      ? await unit.tx.query<{ id: string }>(
          `select ${shown}, items, item_fields from service.sourcing_requests as page where organisation_id = $1 and id = $2`,
          [organisationId, id.data],
        )
      : [];
    if (!row) throw new AppError('not-found', 'There is no such sourcing request.');
    return { status: 200, body: { ...row, files: await loadAttachedFiles(unit.tx, 'sourcing_requests', row.id) } };
  },
});
