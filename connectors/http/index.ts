/**
 * The http connector: sends documents to any REST endpoint, by settings only. Without settings for its kind, each
 * document has its own URL, to which the connector sends PUT, GET and DELETE. For other ERPs the settings describe
 * requests, a lookup, and the meaning of answers.
 *
 * Either the document's own URL or the lookup prevents a second object: settings with neither are refused.
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import {
  type Acknowledgement,
  basicAuth,
  bearerAuth,
  type CheckResult,
  ConfigError,
  type ConnectorContext,
  ConnectorError,
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
  type PlannedOperation,
  readBackEach,
  readFrom,
  stopped,
  type TakenDocument,
  writeEach,
} from 'sourcing-bridge/connector';
import { compileAcknowledge } from './acknowledge.ts';
import { compileAnswers, compileReference } from './answers.ts';
import { faultsOf } from './check-settings.ts';
import { isByKey, kindOf } from './kinds.ts';
import { compileFindHeld } from './lookup.ts';
import { type MadeAhead, madeAhead } from './made-ahead.ts';
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
import { compileRequest } from './requests.ts';
import { type Settings, settingsSchema } from './settings.ts';

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
    requestsAtOnce: given.concurrency,
    // The last request may take three time limits: it is sent, logs in again, and is sent again.
    timeoutMs: startWithinMs + Math.ceil(given.timeout_seconds * 3_000) + 10_000,
    lateEffectMs: Math.ceil((given.settle_seconds + given.visible_seconds) * 1_000),
    visibleAfterMs: Math.ceil(given.visible_seconds * 1_000),
    idempotency: idempotencyOf(given),
    reads: (['supplier', 'requisition'] as const).filter((stream) => given.read[stream] !== undefined),
    readsBack: documentKinds.filter((kind) => kindOf(given, kind).read_back !== undefined),
    acknowledges: given.read.requisition?.acknowledge !== undefined,
    listsOpen: given.read.requisition?.open_list !== undefined,
  }),
  urlOf: (reference, { object_url }) => object_url?.replaceAll('{reference}', () => encodeURIComponent(reference)),
  async open(given, context) {
    const { clock } = context;
    const answers = compileAnswers(given, () => clock.nowMs());
    const http = createHttp({
      baseUrl: given.base_url,
      auth: authOf(given, context),
      headers: given.headers,
      connections: given.concurrency,
      timeoutMs: Math.ceil(given.timeout_seconds * 1_000),
      ...(await certificatesOf(given, context)),
      errorOf: (response, request) => answers.errorOf(response, request),
      isLoginRefused: (response) => answers.isLoginRefused(response),
      clock,
    });
    const kinds = new Map(documentKinds.map((kind) => [kind, compileKind(given, kind)]));
    const kindOfDocument = ({ kind }: Document) => kinds.get(kind) as CompiledKind;
    const supplier = given.read.supplier && supplierList(given.read.supplier);
    const requisition = given.read.requisition && requisitionList(given.read.requisition);
    const openList = openListOf(given.read.requisition);
    const acknowledge = given.read.requisition?.acknowledge;
    const tell = acknowledge && compileAcknowledge(acknowledge, given.idempotency_header);
    const readDeps = { http, baseUrl: given.base_url, clock };
    /** Sends each, and starts none so late that it had no full time limit. */
    const sendEach = <Item>(
      items: readonly Item[],
      send: (item: Item) => Promise<Outcome>,
      signal: AbortSignal,
    ): Promise<Outcome[]> => {
      const startedMs = clock.nowMs();
      const inTime = (item: Item) =>
        clock.nowMs() - startedMs > startWithinMs ? Promise.resolve(stopped) : send(item);
      return writeEach(items, inTime, { signal, atOnce: given.concurrency });
    };
    return {
      check: async () => [
        await checkBase(http, given),
        ...(supplier ? [await checkRead(readDeps, supplier)] : []),
        ...(requisition ? [await checkRead(readDeps, requisition)] : []),
        ...(openList ? [await checkOpenList(readDeps, openList)] : []),
      ],
      plan: async (operations) => operations.map((operation) => planOf(kindOfDocument(operation.document), operation)),
      write: (operations, signal) => {
        const ahead = madeAhead(operations, (operation) =>
          // The bytes of a file are asked for only when they are sent.
          operation.file ? undefined : requestOf(kindOfDocument(operation.document), operation).make(operation, signal),
        );
        const send = (operation: Operation) =>
          writeOne(http, kindOfDocument(operation.document), { operation, ahead, signal });
        return sendEach(operations, send, signal);
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

type CompiledKind = ReturnType<typeof compileKind>;

function compileKind(given: Settings, kind: DocumentKind) {
  const requests = kindOf(given, kind);
  const { idempotency_header: header } = given;
  const compile = (action: 'create' | 'amend' | 'cancel') => {
    const request = requests[action];
    return request && compileRequest(kind, request, header);
  };
  return {
    requests: { create: compile('create'), amend: compile('amend'), cancel: compile('cancel') },
    referenceOf: compileReference(requests.reference),
    findHeld: compileFindHeld(kind, requests),
    readBack: compileReadBack(kind, requests),
    hasLookup: requests.lookup !== undefined,
  };
}

function requestOf({ requests }: CompiledKind, { action, document }: Operation) {
  const request = requests[action];
  if (!request) throw new ConfigError(`documents.${document.kind} has no ${action}`);
  return request;
}

const statuses = { create: 'created', amend: 'updated', cancel: 'cancelled' } as const;
/** A cancellation answers them when there is nothing at its URL. */
const goneStatuses = [404, 410];

interface Write {
  readonly operation: Operation;
  readonly ahead: MadeAhead<Operation, HttpRequest | Promise<HttpRequest>>;
  readonly signal: AbortSignal;
}

async function writeOne(http: Http, kind: CompiledKind, { operation, ahead, signal }: Write): Promise<Outcome> {
  const { action, document } = operation;
  const request = await (ahead.take(operation) ?? requestOf(kind, operation).make(operation, signal));
  const answered = http.request(action === 'cancel' ? { ...request, accept: goneStatuses } : request);
  ahead.makeNext();
  const response = await answered;
  if (action === 'cancel' && goneStatuses.includes(response.status)) {
    // The object is gone, or it has another path: the lookup tells which.
    const held = kind.hasLookup ? await kind.findHeld(http, document, signal) : [];
    if (held.length > 0)
      throw new DataError(
        `the ERP answered ${response.status} to ${request.method} ${request.path}, but still holds ${held[0]?.reference}`,
      );
  }
  return { status: statuses[action], reference: kind.referenceOf(response, operation) };
}

function planOf(kind: CompiledKind, operation: Operation): PlannedOperation {
  const { action, document } = operation;
  return { key: document.key, action, steps: stepsOf(kind, operation) };
}

function stepsOf(kind: CompiledKind, operation: Operation): string[] {
  try {
    const { line, content } = requestOf(kind, operation).describe(operation);
    const members = typeof content === 'object' && content !== null ? Object.entries(content) : [];
    return [line, ...members.map(([name, value]) => `${name}: ${shown(value)}`)];
  } catch (error) {
    if (error instanceof ConnectorError) return [`It cannot be sent: ${error.message}`];
    throw error;
  }
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}

async function checkBase(http: Http, { base_url, check_path }: Settings): Promise<CheckResult> {
  const name = 'endpoint';
  try {
    // Even a 404 shows that the server is reachable and accepts the login.
    const accept = Array.from({ length: 100 }, (_, index) => 400 + index).filter((status) => !refusals.has(status));
    const { status } = await http.request({
      method: 'GET',
      path: check_path,
      accept,
      signal: AbortSignal.timeout(checkMs),
    });
    const message = `${base_url}${check_path} answers ${status}: it is reachable and does not refuse the login.`;
    return { name, ok: true, message };
  } catch (error) {
    return { name, ok: false, message: `${base_url}: ${error instanceof Error ? error.message : String(error)}` };
  }
}

const refusals: ReadonlySet<number> = new Set([401, 403, 407, 429]);
const checkMs = 10_000;

function authOf(given: Settings, { clock }: ConnectorContext): HttpAuth[] {
  const { auth, signature } = given;
  const all: HttpAuth[] = [];
  switch (auth.type) {
    case 'none':
      break;
    case 'basic':
      all.push(basicAuth(auth.user, auth.password));
      break;
    case 'bearer':
      all.push(bearerAuth(auth.token));
      break;
    case 'header':
      all.push(headerAuth(auth.name, auth.value, auth.prefix));
      break;
    case 'oauth':
      all.push(
        clientCredentials(
          {
            tokenUrl: auth.token_url,
            clientId: auth.client_id,
            clientSecret: auth.client_secret,
            scope: auth.scope,
            inBody: auth.in_body,
            fields: auth.fields,
          },
          clock,
        ),
      );
      break;
  }
  if (signature) {
    const { timestamp_header: timestampHeader, ...rest } = signature;
    all.push(hmacAuth({ ...rest, timestampHeader }, clock));
  }
  return all;
}

async function certificatesOf({ ca_file, client_certificate }: Settings, { dataDir }: ConnectorContext) {
  const read = async (setting: string, file: string) =>
    readFile(resolve(dataDir, file), 'utf8').catch((cause: unknown) => {
      throw new ConfigError(`${setting}: the file ${file} cannot be read: ${String(cause)}`, { cause });
    });
  return {
    ...(ca_file === undefined ? {} : { caPem: await read('ca_file', ca_file) }),
    ...(client_certificate && {
      clientCertificate: {
        certPem: await read('client_certificate.certificate_file', client_certificate.certificate_file),
        keyPem: await read('client_certificate.key_file', client_certificate.key_file),
      },
    }),
  };
}
