/** Sourcing for tests: the shortest way to suppliers, an event, bids and awards, through the API. */
import { eventually } from './eventually.ts';
import type { TestOrganisation } from './test-organisation.ts';

/** Creates suppliers by their external ids and waits until they exist. */
export async function createSuppliers(organisation: TestOrganisation, externalIds: readonly string[]): Promise<void> {
  await changeSuppliers(organisation, ...externalIds.map((id) => ({ external_id: id, name: `Supplier ${id}` })));
}

/** Submits changes, waits until they are processed, and returns the submission. */
export async function changeSuppliers(organisation: TestOrganisation, ...suppliers: object[]) {
  const submitted = await organisation.call('POST', '/api/manage/supplier_changes', { change_data: { suppliers } });
  return processedSubmission(organisation, submitted.body.result.uuid);
}

/** Waits until a submission is processed, and returns it. */
export function processedSubmission(organisation: TestOrganisation, uuid: string) {
  return eventually('the suppliers are processed', async () => {
    const read = await organisation.call('GET', `/api/manage/supplier_changes/${uuid}`);
    return read.body.result.current_state === 'PROCESSED' && read.body.result;
  });
}

/** A create payload: cost = Volume (the buyer's) * Price (the supplier's), all lots with volume 10. */
export function eventPayload(options: { name?: string; lots?: readonly string[]; suppliers?: readonly string[] } = {}) {
  return {
    name: options.name ?? 'Office chairs',
    primary_cost_calculation: '[Volume] * [Price]',
    suppliers: (options.suppliers ?? []).map((id) => ({ external_id: id })),
    bid_sheet: {
      column_roles: { volume: 'Volume' },
      columns: [
        { name: 'Volume', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'NUMBER', precision: 0 },
        { name: 'Price', column_type: 'INPUT', input_by: 'SUPPLIER_INPUT', input_type: 'CURRENCY', precision: 2 },
      ],
      lots: (options.lots ?? ['A']).map((name) => ({ name, values: [{ column: 'Volume', value: '10' }] })),
    },
  };
}

/** Submits a job, waits for its end, and returns it. */
export async function endedJob(organisation: TestOrganisation, path: string, payload: unknown) {
  const submitted = await organisation.call('POST', path, payload);
  return jobEnd(organisation, submitted.body.id);
}

/** Waits until a job has ended, and returns it. */
export function jobEnd(organisation: TestOrganisation, id: string) {
  return eventually('the job has ended', async () => {
    const read = await organisation.call('GET', `/api/jobs/${id}`);
    return read.body.status === 'PENDING' ? undefined : read.body;
  });
}

/** Creates an event in draft and returns its id. */
export function createEvent(organisation: TestOrganisation, payload: unknown): Promise<string> {
  return createdEntity(organisation, '/api/jobs/create-sourcing-events', payload);
}

/** Creates a sourcing request and returns its id. */
export function createRequest(organisation: TestOrganisation, payload: object = {}): Promise<string> {
  return createdEntity(organisation, '/api/jobs/create-sourcing-requests', { name: 'Chairs wanted', ...payload });
}

async function createdEntity(organisation: TestOrganisation, path: string, payload: unknown): Promise<string> {
  const job = await endedJob(organisation, path, payload);
  if (typeof job.created_entity !== 'string') throw new Error(`The job failed: ${JSON.stringify(job)}`);
  return job.created_entity;
}

/** Reads the event as the desk shows it. */
export async function readEvent(organisation: TestOrganisation, id: string) {
  const { status, body } = await organisation.call('GET', `/desk/events/${id}`);
  if (status !== 200) throw new Error(`GET ${id}: ${status} ${JSON.stringify(body)}`);
  return body;
}

/** Sends a desk command; fails unless the answer is 2xx. */
export async function desk(organisation: TestOrganisation, method: string, path: string, body: unknown = {}) {
  const answer = await organisation.call(method, `/desk/events/${path}`, body);
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** Reads every record of a feed, page after page. */
export async function readWholeFeed(organisation: TestOrganisation, feed: string, query = 'page_size=1000') {
  const records = [];
  for (let path = `/api/feeds/${feed}?${query}`; ; ) {
    const { body } = await organisation.call('GET', path);
    records.push(...body.data);
    if (body.next === null) return records;
    const next = new URL(body.next);
    path = next.pathname + next.search;
  }
}
