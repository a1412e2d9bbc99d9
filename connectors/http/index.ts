/**
 * The http connector: sends documents to any REST endpoint, by settings only. Without settings for its kind, each
 * document has its own URL, to which the connector sends PUT, GET and DELETE. For other ERPs the settings describe
 * requests, a lookup, and the meaning of answers.
 *
 * Either the document's own URL or the lookup prevents a second object: settings with neither are refused.
 */
import {
  type Acknowledgement,
  basicAuth,
  bearerAuth,
  type CheckResult,
  type Clock,
  ConfigError,
  type ConnectorContext,
  clientCredentials,
  createHttp,
  DataError,
  type Document,
  type DocumentKind,
  defineConnector,
  documentKinds,
  type Http,
  type HttpAuth,
  type HttpRequest,
  headerAuth,
  hmacAuth,
  lookupEach,
  type Operation,
  type Outcome,
  readBackEach,
  readFrom,
  readSettingsFile,
  requestTurns,
  stopped,
  type TakenDocument,
  writeEach,
} from 'sourcing-bridge/connector';
import { compileAcknowledge } from './acknowledge.ts';
import { compileAnswers, compileReference } from './answers.ts';
import { faultsOf } from './check-settings.ts';
import { isByKey, kindOf, stepsOf } from './kinds.ts';
import { compileFindHeld } from './lookup.ts';
import { compileReadBack } from './read-back.ts';
import {
  checkOpenList,
  checkRead,
  createReader,
  openListOf,
  openNumbers,
  requisitionList,
  supplierList,
} from './reads.ts';
import { type ActionSettings, type Settings, settingsSchema } from './settings.ts';
import { type CompiledSteps, compileSteps, describeSteps, type Walk, walkSteps } from './steps.ts';

const settings = settingsSchema.superRefine((given, context) => {
  for (const { path, message } of faultsOf(given)) context.addIssue({ code: 'custom', path: [...path], message });
});

const batchMax = 200;
/** No request of a batch starts later than this, so that each has its full time limit. */
const startWithinMs = 60_000;

export default defineConnector({
  name: 'http',
  settings,
  capabilities: {
    kinds: documentKinds,
    batchMax,
    requestsAtOnce: 4,
    timeoutMs: 100_000,
    lateEffectMs: 35_000,
    visibleAfterMs: 5_000,
    idempotency: 'external-id',
    reads: ['supplier', 'requisition'],
    readsBack: documentKinds,
    acknowledges: true,
    listsOpen: true,
  },
  capabilitiesWith: (given) => ({
    ...sizesOf(given),
    requestsAtOnce: given.concurrency,
    lateEffectMs: Math.ceil((given.settle_seconds + given.visible_seconds) * 1_000),
    visibleAfterMs: Math.ceil(given.visible_seconds * 1_000),
    idempotency: idempotencyOf(given),
    reads: (['supplier', 'requisition'] as const).filter((stream) => given.read[stream] !== undefined),
    readsBack: documentKinds.filter((kind) => kindOf(given, kind).read_back !== undefined),
    leavesParts: documentKinds.filter((kind) => Array.isArray(given.documents[kind]?.create)),
    acknowledges: given.read.requisition?.acknowledge !== undefined,
    listsOpen: given.read.requisition?.open_list !== undefined,
  }),
  urlOf: (reference, { object_url }) => object_url?.replaceAll('{reference}', () => encodeURIComponent(reference)),
  async open(given, context) {
    const { clock } = context;
    const http = createHttp({
      baseUrl: given.base_url,
      auth: authOf(given, context),
      headers: given.headers,
      connections: given.concurrency,
      timeoutMs: Math.ceil(given.timeout_seconds * 1_000),
      ...(await certificatesOf(given, context)),
      ...compileAnswers(given, () => clock.nowMs()),
      turn: turnOf(given, context),
      clock,
    });
    const kinds = new Map(documentKinds.map((kind) => [kind, compileKind(given, kind)]));
    const kindOfDocument = ({ kind }: Document) => kinds.get(kind) as CompiledKind;
    const supplier = given.read.supplier && supplierList(given.read.supplier);
    const requisition = given.read.requisition && requisitionList(given.read.requisition);
    const openList = openListOf(given.read.requisition);
    const acknowledge = given.read.requisition?.acknowledge;
    const tell = acknowledge && compileAcknowledge(acknowledge, given.idempotency_header);
    const readDeps = { http, clock };
    /** Sends each, and starts none so late that it had no full time limit. */
    const sendEach = <Item>(
      items: readonly Item[],
      send: (item: Item) => Promise<Outcome>,
      signal: AbortSignal,
      atOnce = given.concurrency,
    ): Promise<Outcome[]> => {
      const startedMs = clock.nowMs();
      const inTime = (item: Item) =>
        clock.nowMs() - startedMs > startWithinMs ? Promise.resolve(stopped) : send(item);
      return writeEach(items, inTime, { signal, atOnce });
    };
    return {
      check: async () => [
        await checkBase(http, given),
        ...(supplier ? [await checkRead(readDeps, supplier)] : []),
        ...(requisition ? [await checkRead(readDeps, requisition)] : []),
        ...(openList ? [await checkOpenList(readDeps, openList)] : []),
      ],
      plan: async (operations) =>
        operations.map((operation) => {
          const { action, document } = operation;
          const steps = describeSteps(stepsFor(kindOfDocument(document), operation), operation);
          return { key: document.key, action, steps };
        }),
      write: (operations, signal) => {
        const deps = { http, clock, signal, visibleMs: given.visible_seconds * 1_000 };
        const send = (operation: Operation) => writeOne(deps, kindOfDocument(operation.document), operation);
        // Two documents may need the same bidder, or the same state of an event: neither must come between the steps of
        // the other.
        const hasList = operations.some(({ document }) => kindOfDocument(document).hasList);
        return sendEach(operations, send, signal, hasList ? 1 : given.concurrency);
      },
      lookup: async (documents, signal) => {
        const find = async (document: Document) => kindOfDocument(document).findHeld(http, document, signal);
        return lookupEach(documents, find, { signal, atOnce: given.concurrency });
      },
      readBack: async (deliveries, signal) => {
        const read = async (delivery: TakenDocument) => {
          const { readBack } = kindOfDocument(delivery.document);
          if (!readBack) throw new ConfigError(`documents.${delivery.document.kind} has no read_back`);
          return readBack(http, delivery, signal);
        };
        return readBackEach(deliveries, read, { signal, atOnce: given.concurrency });
      },
      read: readFrom({
        ...(supplier && { supplier: createReader(readDeps, supplier) }),
        ...(requisition && { requisition: createReader(readDeps, requisition) }),
      }),
      ...(openList && { openRequisitions: (signal: AbortSignal) => openNumbers(readDeps, openList, signal) }),
      ...(tell && {
        acknowledge: (news: readonly Acknowledgement[], signal: AbortSignal) =>
          sendEach(news, (each) => tell(http, each, signal), signal),
      }),
      close: () => http.close(),
    };
  },
});

function idempotencyOf(given: Settings): 'key' | 'external-id' | 'lookup' {
  if (documentKinds.every((kind) => isByKey(kindOf(given, kind)))) return 'external-id';
  return given.idempotency_header === undefined ? 'lookup' : 'key';
}

/** How much a `write` takes, and how long it may take. */
function sizesOf(given: Settings): { batchMax: number; timeoutMs: number } {
  const { per_second: perSecond = Infinity, per_minute: perMinute = Infinity } = given.limits;
  const turnMs = Math.max(1_000 / perSecond, 60_000 / perMinute);
  const lists = Object.values(given.documents).flatMap(({ create, amend, cancel }) =>
    [create, amend, cancel].filter(Array.isArray).map(stepsOf),
  );
  const requests = Math.max(1, ...lists.map((steps) => steps.length + steps.filter(({ find }) => find).length));
  // Documents with steps are written one after another. A request of an ERP rarely takes more than a second.
  const documentMs = lists.length === 0 ? turnMs : requests * Math.max(turnMs, 1_000);
  return {
    batchMax: Math.max(1, Math.min(batchMax, Math.floor(startWithinMs / documentMs))),
    // The last request may take three time limits: it is sent, logs in again, and is sent again.
    timeoutMs:
      startWithinMs +
      Math.ceil((requests + 2) * given.timeout_seconds * 1_000 + (requests - 1) * given.visible_seconds * 1_000) +
      10_000,
  };
}

function turnOf({ base_url: target, limits }: Settings, { clock }: ConnectorContext) {
  const { per_second: perSecond, per_minute: perMinute } = limits;
  if (perSecond === undefined && perMinute === undefined) return undefined;
  return requestTurns(target.replace(/(?<!\/)\/+$/, ''), { perSecond, perMinute }, clock);
}

type CompiledKind = ReturnType<typeof compileKind>;

function compileKind(given: Settings, kind: DocumentKind) {
  const requests = kindOf(given, kind);
  const { create, amend, cancel } = requests;
  const compile = (action: ActionSettings | undefined) => compileSteps(kind, action, given.idempotency_header);
  return {
    steps: { create: compile(create), amend: compile(amend), cancel: compile(cancel) },
    hasList: [create, amend, cancel].some(Array.isArray),
    referenceOf: compileReference(requests.reference),
    findHeld: compileFindHeld(kind, requests),
    readBack: compileReadBack(kind, requests),
    hasLookup: requests.lookup !== undefined,
  };
}

function stepsFor({ steps }: CompiledKind, { action, document }: Operation): CompiledSteps {
  if (steps[action].length === 0) throw new ConfigError(`documents.${document.kind} has no ${action}`);
  return steps[action];
}

const statuses = { create: 'created', amend: 'updated', cancel: 'cancelled' } as const;
/** A cancellation answers them when there is nothing at its URL. */
const goneStatuses = [404, 410];

async function writeOne(
  deps: Omit<Walk, 'operation' | 'send'>,
  kind: CompiledKind,
  operation: Operation,
): Promise<Outcome> {
  const { action, document } = operation;
  const { http, signal } = deps;
  let gone: string | undefined;
  const send = async (request: HttpRequest) => {
    if (action !== 'cancel') return http.request(request);
    const response = await http.request({ ...request, accept: goneStatuses });
    if (goneStatuses.includes(response.status)) gone = `${response.status} to ${request.method} ${request.path}`;
    return response;
  };
  const written = await walkSteps(stepsFor(kind, operation), { ...deps, operation, send });
  // The object is gone, or it has another path: the lookup tells which.
  const [held] = gone !== undefined && kind.hasLookup ? await kind.findHeld(http, document, signal) : [];
  if (held) throw new DataError(`the ERP answered ${gone}, but still holds ${held.reference}`);
  return { status: statuses[action], reference: kind.referenceOf(written, operation) };
}

async function checkBase(http: Http, { base_url, check_path }: Settings): Promise<CheckResult> {
  const name = 'endpoint';
  try {
    // Even a 404 shows that the server is reachable and accepts the login.
    const accept = Array.from({ length: 100 }, (_, index) => 400 + index).filter((status) => !refusals.has(status));
    const signal = AbortSignal.timeout(checkMs);
    const { status } = await http.request({ method: 'GET', path: check_path, accept, signal });
    const message = `${base_url}${check_path} answers ${status}: it is reachable and does not refuse the login.`;
    return { name, ok: true, message };
  } catch (error) {
    return { name, ok: false, message: `${base_url}: ${error instanceof Error ? error.message : String(error)}` };
  }
}

const refusals: ReadonlySet<number> = new Set([401, 403, 407, 429]);
const checkMs = 10_000;

function authOf({ auth, signature }: Settings, { clock }: ConnectorContext): HttpAuth[] {
  const signed = signature && hmacAuth({ ...signature, timestampHeader: signature.timestamp_header }, clock);
  return [...loginOf(auth, clock), ...(signed ? [signed] : [])];
}

function loginOf(auth: Settings['auth'], clock: Clock): HttpAuth[] {
  switch (auth.type) {
    case 'none':
      return [];
    case 'basic':
      return [basicAuth(auth.user, auth.password)];
    case 'bearer':
      return [bearerAuth(auth.token)];
    case 'header':
      return [headerAuth(auth.name, auth.value, auth.prefix)];
    case 'oauth': {
      const { token_url: tokenUrl, client_id: clientId, client_secret: clientSecret, scope, fields } = auth;
      return [clientCredentials({ tokenUrl, clientId, clientSecret, scope, inBody: auth.in_body, fields }, clock)];
    }
  }
}

async function certificatesOf({ ca_file, client_certificate: client }: Settings, { dataDir }: ConnectorContext) {
  const read = async (setting: string, file: string | undefined) => readSettingsFile(file, { setting, dataDir });
  const caPem = await read('ca_file', ca_file);
  const certPem = await read('client_certificate.certificate_file', client?.certificate_file);
  const keyPem = await read('client_certificate.key_file', client?.key_file);
  return {
    ...(caPem === undefined ? {} : { caPem }),
    ...(certPem === undefined || keyPem === undefined ? {} : { clientCertificate: { certPem, keyPem } }),
  };
}
