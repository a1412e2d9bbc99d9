/**
 * A service of the dialect `public`: it takes the members that the pages of the public service show, and refuses any other
 * with `{errors, field_errors}`. A fake, as that service cannot be run here.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { listen } from '#platform/http/server.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';

const uuid = z.uuid();
const email = z.email();
const tags = z.array(z.union([z.string(), z.strictObject({ name: z.string(), value: z.string() })]));
const lots = z.array(
  z.strictObject({
    name: z.string(),
    values: z.array(z.strictObject({ column: z.string(), value: z.string() })),
  }),
);
const column = z.strictObject({
  name: z.string(),
  column_type: z.literal('INPUT'),
  input_by: z.enum(['BUYER_INPUT', 'SUPPLIER_INPUT']),
  input_type: z.enum(['TEXT', 'NUMBER', 'CURRENCY']),
  precision: z.int().optional(),
});
const event = {
  name: z.string(),
  description: z.string().nullish(),
  reference_id: z.string().nullish(),
  business_contact: z.looseObject({}).nullish(),
  created_by: email,
  timezone: z.string().nullish(),
  roles: z.array(z.strictObject({ email, role_type: z.string() })).optional(),
  schedule: z.array(z.strictObject({ starts: z.string(), ends: z.string() })).optional(),
  event_type: z.enum(['AUCTION', 'rfq']).optional(),
  tags: tags.optional(),
  primary_cost_calculation: z
    .string()
    .regex(/^[^[\]]*$/, 'has brackets')
    .optional(),
  settings: z.strictObject({ is_test: z.boolean() }).optional(),
};
const files = z.array(z.string()).min(1);

/** By the last part of the path. */
const bodies: Readonly<Record<string, z.ZodType>> = {
  'create-sourcing-events': z.strictObject({
    ...event,
    bid_sheet: z.strictObject({
      column_roles: z.strictObject({ lot_identifier: z.string() }),
      columns: z.array(column),
      lots,
    }),
  }),
  'create-sourcing-events-from-template': z.strictObject({
    ...event,
    template_sourcing_event_id: uuid,
    bid_sheet: z.strictObject({ lots }),
  }),
  'update-sourcing-events': z
    .strictObject({ ...event, sourcing_event: uuid, bid_sheet: z.strictObject({ lots }) })
    .omit({ created_by: true }),
  'create-sourcing-requests': z.strictObject({
    bot: uuid,
    description: z.string(),
    bidding_deadline: z.string().optional(),
    item_fields: z.array(z.array(z.strictObject({ name: z.string(), value: z.string() }))),
  }),
  'attach-files-to-sourcing-event': z.strictObject({ sourcing_event: uuid, created_by: email, files }),
  'attach-files-to-sourcing-request': z.strictObject({ sourcing_request: uuid, requester: email, files }),
};

interface Job {
  readonly id: string;
  readonly key: string;
  readonly path: string;
  readonly body: Record<string, unknown>;
  readonly created: string;
  readonly entity: string;
  /** The bytes of each file that was uploaded. */
  readonly uploaded: Map<string, string>;
}

export interface PublicService {
  readonly url: string;
  readonly key: string;
  readonly jobs: Job[];
  /** Each job that was asked for: the last part of its path, and its status. */
  readonly posts: string[];
  /** Each upload, and the API key that came with it. */
  readonly uploads: string[];
  /** What the next upload is answered with. */
  refuseUpload: number | undefined;
  /** Loses the answer to the next POST to this path, after it took effect. */
  loseAnswerOf: string | undefined;
}

/**
 * `singular`: it has the update under the other path that the pages name. `forgetful`: it keeps neither idempotency keys
 * nor references.
 */
export async function startPublicService({ singular = false, forgetful = false } = {}): Promise<PublicService> {
  const service: PublicService & { url: string } = {
    url: '',
    key: 'public-key',
    jobs: [],
    posts: [],
    uploads: [],
    refuseUpload: undefined,
    loseAnswerOf: undefined,
  };
  const { jobs } = service;

  const isAttach = ({ path }: Job) => path.startsWith('attach');
  const namesOf = ({ body }: Job) => (body['files'] ?? []) as string[];
  const shown = (job: Job) => {
    const isDone = !isAttach(job) || namesOf(job).every((name) => job.uploaded.has(name));
    const urlOf = (name: string) => `${service.url}/upload/${job.id}/${encodeURIComponent(name)}`;
    return {
      id: job.id,
      type: 'ANY',
      status: isDone ? 'COMPLETED' : 'RUNNING',
      created: job.created,
      ...(isDone && !isAttach(job) ? { created_entity: job.entity } : {}),
      ...(isDone
        ? {}
        : { detail: { files: namesOf(job).map((name) => ({ file_name: name, upload_url: urlOf(name) })) } }),
    };
  };

  function post(path: string, body: Record<string, unknown>, key: string): [number, unknown] {
    const wanted = singular && path === 'update-sourcing-event' ? 'update-sourcing-events' : path;
    if (singular && path === 'update-sourcing-events') return [404, { errors: ['Not found.'], field_errors: {} }];
    const schema = bodies[wanted];
    if (!schema) return [404, { errors: ['Not found.'], field_errors: {} }];
    const { error } = schema.safeParse(body);
    if (error) {
      const fields = error.issues.map((issue) => [issue.path.join('.') || 'body', [issue.message]]);
      return [400, { errors: [], field_errors: Object.fromEntries(fields) }];
    }
    let job = forgetful ? undefined : jobs.find((each) => each.key === key);
    if (!job) {
      const created = new Date().toISOString();
      job = { id: randomUUID(), key, path: wanted, body, created, entity: randomUUID(), uploaded: new Map() };
      jobs.push(job);
    }
    return [201, shown(job)];
  }

  function get(url: URL): [number, unknown] {
    const pageSize = Number(url.searchParams.get('page_size') ?? 100);
    if (pageSize < 10 || pageSize > 200) return [400, { errors: ['page_size'], field_errors: {} }];
    if (url.pathname === '/api/feeds/sourcing-events') {
      const events = jobs
        .filter(({ path }) => path.startsWith('create-sourcing-events'))
        .map(({ entity, body, created }) => ({
          id: entity,
          name: body['name'],
          type: 'RFQ',
          status: 'DRAFT',
          ...(forgetful ? {} : { reference_id: body['reference_id'] }),
          primary_currency: 'EUR',
          created,
          modified: created,
        }));
      const id = url.searchParams.get('id');
      return [200, { data: events.filter((each) => id === null || each.id === id), next: null }];
    }
    if (url.pathname === '/api/jobs/') return [200, { result: jobs.map(shown).reverse(), count: jobs.length }];
    const job = jobs.find(({ id }) => url.pathname === `/api/jobs/${id}`);
    return job ? [200, shown(job)] : [404, { errors: ['Not found.'], field_errors: {} }];
  }

  function upload(pathname: string, bytes: string, request: IncomingMessage): number {
    service.uploads.push(`${pathname.split('/').at(-1)} ${request.headers.authorization ?? 'without a key'}`);
    if (service.refuseUpload !== undefined) return service.refuseUpload;
    const [, , id, name = ''] = pathname.split('/');
    jobs.find((job) => job.id === id)?.uploaded.set(decodeURIComponent(name), bytes);
    return 200;
  }

  function answer(request: IncomingMessage, response: ServerResponse, text: string): void {
    const url = new URL(request.url ?? '', service.url);
    if (request.method === 'PUT') return void response.writeHead(upload(url.pathname, text, request)).end();
    if (request.headers.authorization !== `Bearer ${service.key}`) return void response.writeHead(403).end();
    const path = url.pathname.split('/').at(-1) ?? '';
    const isPost = request.method === 'POST';
    const [status, body] = isPost
      ? post(path, JSON.parse(text) as Record<string, unknown>, String(request.headers['idempotency-key']))
      : get(url);
    if (isPost) service.posts.push(`${path} ${status}`);
    if (isPost && service.loseAnswerOf === path) {
      service.loseAnswerOf = undefined;
      return void response.destroy();
    }
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }

  const server = await listen(
    (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => answer(request, response, Buffer.concat(chunks).toString('utf8')));
    },
    { host: '127.0.0.1', port: 0 },
  );
  closeAtEnd(() => server.close(0));
  service.url = server.url;
  return service;
}
