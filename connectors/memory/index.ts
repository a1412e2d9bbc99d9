/**
 * The reference connector, and the folder that `connector new` copies. Its ERP lives in memory (memory-erp.ts) and works
 * like many: it logs in with client credentials, gives its objects numbers of its own, and does not know a repeated
 * creation again. So each object carries the document's key and hash, and the bridge asks `lookup` before it repeats one.
 *
 * To make your own: say in `settings` how your ERP is reached, in `capabilities` what it can do, and in mapping.ts what
 * becomes what; then change the requests below until the conformance test passes.
 */
import {
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
  readFrom,
  secret,
  UnknownOutcome,
  writeEach,
  z,
} from 'sourcing-bridge/connector';
import { type ErpRecord, toErpObject, toRequisitionRecord, toSupplierRecord } from './mapping.ts';

const settings = z.strictObject({
  base_url: z.url({ protocol: /^https?$/ }).describe('Where the ERP is: https://erp.example.com'),
  client_id: z.string().min(1).describe('The user that the ERP has for the bridge'),
  client_secret: secret().describe('Its secret'),
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
    // When the process dies, a request may be on its way still: after this time it is over, and `lookup` shows what it did.
    lateEffectMs: 5_000,
    reads: ['supplier', 'requisition'],
  },
  async open({ base_url, client_id, client_secret }, { clock }) {
    const login = clientCredentials({ tokenUrl: '/token', clientId: client_id, clientSecret: client_secret }, clock);
    const http = createHttp({ baseUrl: base_url, auth: [login], connections, clock });
    return {
      check: () => check(http),
      plan: (operations, signal) => plan(http, operations, signal),
      write: (operations, signal) =>
        writeEach(operations, (one) => write(http, one, signal), { signal, atOnce: connections }),
      lookup: (documents, signal) => lookup(http, documents, signal),
      read: readFrom({
        supplier: (checkpoint, signal) => read(http, 'suppliers', toSupplierRecord, checkpoint, signal),
        requisition: (checkpoint, signal) => read(http, 'requisitions', toRequisitionRecord, checkpoint, signal),
      }),
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
      ? `The ERP takes documents from ${user}.`
      : `The ERP lets ${user} read only: allow writing.`;
    return [{ name, ok: may_write, message }];
  } catch (error) {
    return [{ name, ok: false, message: `The ERP does not let the bridge in: ${String(error)}` }];
  }
}

const meForm = z.object({ user: z.string(), may_write: z.boolean() });

/** Creates, amends or cancels one object. It is never tried twice here: what goes wrong is thrown, the bridge decides. */
async function write(http: Http, operation: Operation, signal: AbortSignal): Promise<Outcome> {
  const { action, document, contentHash, reference } = operation;
  const objects = `/objects/${document.kind}`;
  if (action === 'create') {
    const object = toErpObject(document, contentHash, await fileBytes(operation, signal));
    const { number } = await send(http, { method: 'POST', path: objects, json: object, signal });
    return { status: 'created', reference: number };
  }
  // The bridge asks `lookup`, and comes again with what that finds.
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
  // A page of some gateway, with status 200: nobody knows what the ERP has done.
  if (!written.success) throw new UnknownOutcome('the ERP answered without the number of the object');
  return written.data;
}

const writtenForm = z.object({ number: z.string().min(1), changed: z.boolean() });

/** One request for all of them. A POST that only searches is safe: it may be repeated whatever becomes of it. */
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

/** What has changed since the checkpoint, which is the ERP's number of the last change that was read. */
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

const changesForm = z.object({
  last: z.int(),
  records: z.array(
    z.object({
      number: z.string(),
      name: z.string(),
      closed: z.boolean(),
      items: z.array(z.object({ name: z.string(), quantity: z.string(), unit: z.string() })).default([]),
    }),
  ),
});
