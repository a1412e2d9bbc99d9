/**
 * The reference connector, and the folder that `connector new` copies. Its ERP is in memory (memory-erp.ts) and works
 * like many ERPs: the login uses client credentials, the ERP numbers its objects, and it does not recognise a repeated
 * create. So each object has the document's key and hash, and the bridge calls `lookup` before it repeats a create.
 *
 * To write your own: declare in `settings` how your ERP is reached, in `capabilities` what it can do, and in mapping.ts
 * how documents become objects. Then change the requests below until the conformance test passes.
 */
import {
  type Acknowledgement,
  clientCredentials,
  createHttp,
  defineConnector,
  documentKinds,
  type Found,
  fileBytes,
  type Http,
  type Operation,
  type Outcome,
  type PlannedOperation,
  pathSegment,
  type ReadBack,
  readFrom,
  secret,
  type TakenDocument,
  TransientError,
  UnknownOutcome,
  writeEach,
  z,
} from 'sourcing-bridge/connector';
import { compared, type ErpRecord, toErpObject, toRequisitionRecord, toSupplierRecord } from './mapping.ts';

const settings = z.strictObject({
  base_url: z.url({ protocol: /^https?$/ }).describe('Where the ERP is: https://erp.example.com'),
  client_id: z.string().min(1).describe('The user that the ERP has for the bridge'),
  client_secret: secret().describe('The secret of that user'),
});

const connections = 4;

export default defineConnector({
  name: 'memory',
  settings,
  capabilities: {
    kinds: documentKinds,
    // One request writes one object: a batch saves only the bridge's own work.
    batchMax: 20,
    requestsAtOnce: connections,
    idempotency: 'lookup',
    timeoutMs: 60_000,
    // A request may still be on its way when its call is cut off. After this time it has ended, and `lookup` shows its
    // effect.
    lateEffectMs: 5_000,
    reads: ['supplier', 'requisition'],
    acknowledges: true,
    listsOpen: true,
    readsBack: documentKinds,
  },
  async open({ base_url, client_id, client_secret }, { clock }) {
    const login = clientCredentials({ tokenUrl: '/token', clientId: client_id, clientSecret: client_secret }, clock);
    const http = createHttp({ baseUrl: base_url, auth: [login], connections, clock });
    return {
      check: () => check(http),
      plan: (operations, signal) => plan(http, operations, signal),
      write: (operations, signal) =>
        writeEach(operations, (operation) => write(http, operation, signal), { signal, atOnce: connections }),
      lookup: (documents, signal) => lookup(http, documents, signal),
      read: readFrom({
        supplier: (checkpoint, signal) => read(http, 'suppliers', toSupplierRecord, checkpoint, signal),
        requisition: (checkpoint, signal) => read(http, 'requisitions', toRequisitionRecord, checkpoint, signal),
      }),
      openRequisitions: (signal) => openRequisitions(http, signal),
      acknowledge: (acknowledgements, signal) =>
        writeEach(acknowledgements, (each) => acknowledge(http, each, signal), { signal, atOnce: connections }),
      readBack: (deliveries, signal) => readBack(http, deliveries, signal),
      close: () => http.close(),
    };
  },
});

async function check(http: Http) {
  const name = 'login';
  try {
    const response = await http.request({ method: 'GET', path: '/me', signal: AbortSignal.timeout(10_000) });
    const { user, may_write } = meForm.parse(response.json());
    const message = may_write
      ? `The ERP accepts documents from ${user}.`
      : `The ERP allows ${user} to read only: grant the right to write.`;
    return [{ name, ok: may_write, message }];
  } catch (error) {
    return [{ name, ok: false, message: `The ERP cannot be used: ${String(error)}` }];
  }
}

const meForm = z.object({ user: z.string(), may_write: z.boolean() });

/** Creates, amends or cancels one object. It never retries: it throws, and the bridge decides what happens next. */
async function write(http: Http, operation: Operation, signal: AbortSignal): Promise<Outcome> {
  const { action, document, contentHash, reference } = operation;
  const objects = `/objects/${document.kind}`;
  if (action === 'create') {
    const object = toErpObject(document, contentHash, await fileBytes(operation, signal));
    const { number } = await send(http, { method: 'POST', path: objects, json: object, signal });
    return { status: 'created', reference: number };
  }
  // The bridge then calls `lookup`, and repeats the operation with the number that it finds.
  if (reference === undefined) throw new UnknownOutcome('the number of the object is not known');
  const path = `${objects}/${pathSegment(reference)}`;
  if (action === 'cancel') {
    await send(http, { method: 'POST', path: `${path}/cancel`, json: {}, signal });
    return { status: 'cancelled', reference };
  }
  const object = toErpObject(document, contentHash, await fileBytes(operation, signal));
  const { changed } = await send(http, { method: 'PUT', path, json: object, signal });
  return { status: changed ? 'updated' : 'unchanged', reference };
}

async function send(http: Http, request: Parameters<Http['request']>[0]): Promise<z.output<typeof writtenForm>> {
  const written = writtenForm.safeParse((await http.request(request)).json());
  // For example an HTML page of a gateway with status 200: what the ERP has done is unknown.
  if (!written.success) throw new UnknownOutcome('the ERP answered without the number of the object');
  return written.data;
}

/**
 * The requisition has fields for it, which the newest news replaces: so a repetition changes nothing. They are not among
 * what `read` returns. A requisition that the ERP does not have is answered 404, which is its own fault.
 */
async function acknowledge(http: Http, news: Acknowledgement, signal: AbortSignal): Promise<Outcome> {
  const { requisition, status, event, reason } = news;
  const path = `/requisitions/${pathSegment(requisition)}`;
  const json = { status, project: event?.id, link: event?.url, reason };
  const { number, changed } = await send(http, { method: 'PUT', path, json, signal });
  return { status: changed ? 'updated' : 'unchanged', reference: number };
}

const writtenForm = z.object({ number: z.string().min(1), changed: z.boolean() });

/** One request for all documents. The POST only searches, so it is `safe`: a missing answer leaves nothing open. */
async function lookup(http: Http, documents: readonly Operation['document'][], signal: AbortSignal): Promise<Found[]> {
  const [first] = documents;
  if (!first) return [];
  const response = await http.request({
    method: 'POST',
    path: `/search/${first.kind}`,
    json: { keys: documents.map(({ key }) => key) },
    safe: true,
    signal,
  });
  return foundForm
    .parse(response.json())
    .map(({ number, key, hash }) => ({ key, reference: number, contentHash: hash }));
}

const foundForm = z.array(z.object({ number: z.string().min(1), key: z.string(), hash: z.string() }));

/**
 * One request for all objects, and one answer for each: an answer that is too short says nothing of the rest. The search
 * is by the number, because a person may have changed the field that has the key.
 */
async function readBack(http: Http, deliveries: readonly TakenDocument[], signal: AbortSignal): Promise<ReadBack[]> {
  const [first] = deliveries;
  if (!first) return [];
  const wanted = deliveries.map(({ document: { key }, reference: number }) => ({ number, key }));
  const path = `/show/${first.document.kind}`;
  const { objects } = shownForm.parse(
    (await http.request({ method: 'POST', path, json: { wanted }, safe: true, signal })).json(),
  );
  if (objects.length !== deliveries.length)
    throw new TransientError(`the ERP showed ${objects.length} objects of ${deliveries.length}`);
  return deliveries.map(({ document }, index) => {
    const { key } = document;
    const object = objects[index];
    if (!object) return { key, status: 'missing' };
    const { number: reference, cancelled, changedBy: by } = object;
    if (cancelled) return { key, status: 'cancelled', reference };
    return { key, status: 'held', reference, ...compared(document, object), changed: { by } };
  });
}

const shownForm = z.object({
  objects: z.array(
    z.looseObject({ number: z.string().min(1), cancelled: z.boolean(), changedBy: z.string() }).nullable(),
  ),
});

async function plan(http: Http, operations: readonly Operation[], signal: AbortSignal): Promise<PlannedOperation[]> {
  const documents = operations.map(({ document }) => document);
  const held = new Map((await lookup(http, documents, signal)).map((found) => [found.key, found]));
  return operations.map(({ action, document: { kind, key }, contentHash }) => {
    const found = held.get(key);
    if (action === 'create') return { key, action, steps: [`create ${kind} ${key}`] };
    if (action === 'cancel' || found?.contentHash !== contentHash)
      return { key, action, steps: [`${action} ${found?.reference ?? `${kind} ${key}`}`] };
    return { key, action: 'none', steps: [] };
  });
}

/** The records that have changed since the checkpoint, which is the ERP's number of the last change that was read. */
async function* read<Record>(
  http: Http,
  list: 'suppliers' | 'requisitions',
  toRecord: (record: ErpRecord) => Record,
  checkpoint: string | undefined,
  signal: AbortSignal,
) {
  let since = checkpoint ?? '0';
  while (true) {
    const response = await http.request({ method: 'GET', path: `/changes/${list}`, query: { since }, signal });
    const { records, last } = changesForm.parse(response.json());
    if (records.length === 0) return;
    since = String(last);
    yield { records: records.map(toRecord), checkpoint: since };
  }
}

/** In the order of the numbers: a requisition that is closed meanwhile moves no other one to a page that was read. */
async function* openRequisitions(http: Http, signal: AbortSignal) {
  let after = '';
  while (true) {
    const response = await http.request({ method: 'GET', path: '/open/requisitions', query: { after }, signal });
    const { numbers } = openForm.parse(response.json());
    if (numbers.length === 0) return;
    after = numbers.at(-1) ?? after;
    yield numbers;
  }
}

const openForm = z.object({ numbers: z.array(z.string().min(1)) });

const changesForm = z.object({
  last: z.int(),
  records: z.array(
    z.object({
      number: z.string(),
      name: z.string(),
      closed: z.boolean(),
      category: z.string().optional(),
      plant: z.string().optional(),
      needed_by: z.string().optional(),
      items: z
        .array(z.object({ line: z.string(), name: z.string(), quantity: z.string(), unit: z.string() }))
        .default([]),
      files: z
        .array(z.object({ file_name: z.string(), content: z.string().optional(), url: z.string().optional() }))
        .default([]),
    }),
  ),
});
