/**
 * An ERP for tests and experiments: it keeps everything in memory and is reached over HTTP. It has what a typical ERP
 * has: logins that expire, numbered objects, a field for a foreign key that can be searched, rules that a record can
 * break, and lists of changes. It is not part of a connector: yours has a real ERP.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json, text } from 'node:stream/consumers';
import type { ErpObject, ErpRecord } from './mapping.ts';

interface Stored extends ErpObject {
  readonly type: string;
  readonly number: string;
  readonly cancelled: boolean;
  /** The user who changed it last. */
  readonly changedBy: string;
}

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

export type RecordList = 'suppliers' | 'requisitions';

const pageSize = 3;
const titleLengthMax = 200;

/** What a requisition shows of its sourcing. */
interface Sourcing {
  readonly status: string;
  readonly project?: string;
  readonly link?: string;
  readonly reason?: string;
}

export type MemoryErp = Awaited<ReturnType<typeof startMemoryErp>>;

/** Listens on a free port of this machine, or on that one, as long as the process lives. */
export async function startMemoryErp({
  clientId,
  clientSecret,
  port = 0,
}: {
  clientId: string;
  clientSecret: string;
  port?: number;
}) {
  const objects = new Map<string, Stored>();
  const tokens = new Set<string>();
  const changes: { sequence: number; list: RecordList; record: ErpRecord }[] = [];
  const sourcing = new Map<string, Sourcing>();
  let numbers = 0;
  let sequences = 0;

  function logIn(authorization: string | undefined): Answer {
    const expected = `Basic ${Buffer.from(`${clientId}:${encodeURIComponent(clientSecret)}`).toString('base64')}`;
    if (authorization !== expected) return { status: 401, body: { error: 'invalid_client' } };
    const token = randomUUID();
    tokens.add(token);
    return { status: 200, body: { access_token: token, expires_in: 3_600 } };
  }

  function refusal({ title }: ErpObject): Answer | undefined {
    if (title.length <= titleLengthMax) return undefined;
    return { status: 422, body: { error: `The title has ${title.length} characters; ${titleLengthMax} are allowed.` } };
  }

  function create(type: string, object: ErpObject): Answer {
    numbers += 1;
    const number = `${type.slice(0, 3).toUpperCase()}-${String(numbers).padStart(6, '0')}`;
    objects.set(number, { ...object, type, number, cancelled: false, changedBy: clientId });
    return { status: 201, body: { number, changed: true } };
  }

  function change(number: string, changed: Partial<Stored>): Answer {
    const stored = objects.get(number);
    if (!stored) return { status: 404, body: { error: `There is no object ${number}.` } };
    if (stored.cancelled && changed.cancelled !== true)
      return { status: 409, body: { error: `${number} is cancelled: it cannot be changed.` } };
    const after = { ...stored, ...changed, changedBy: clientId };
    const isChanged = JSON.stringify({ ...after, changedBy: stored.changedBy }) !== JSON.stringify(stored);
    objects.set(number, after);
    return { status: 200, body: { number, changed: isChanged } };
  }

  function search(type: string, keys: readonly string[]): Answer {
    const wanted = new Set(keys);
    const found = [...objects.values()].filter(
      (object) => object.type === type && !object.cancelled && wanted.has(object.key),
    );
    return { status: 200, body: found.map(({ number, key, hash }) => ({ number, key, hash })) };
  }

  /** The whole objects with these numbers, or else of these keys; null for one that does not exist. */
  function show(type: string, wanted: readonly { number?: string; key: string }[]): Answer {
    const ofType = [...objects.values()].filter((object) => object.type === type);
    const shown = wanted.map(({ number, key }) =>
      number === undefined
        ? ofType.findLast((object) => object.key === key)
        : ofType.find((object) => object.number === number),
    );
    return { status: 200, body: { objects: shown.map((object) => object ?? null) } };
  }

  function changesSince(list: string, since: number): Answer {
    const due = changes.filter((change) => change.list === list && change.sequence > since).slice(0, pageSize);
    return { status: 200, body: { records: due.map(({ record }) => record), last: due.at(-1)?.sequence ?? since } };
  }

  function openAfter(after: string): Answer {
    const open = changes.filter(({ list, record }) => list === 'requisitions' && !record.closed);
    const numbers = open.map(({ record }) => record.number).sort();
    return { status: 200, body: { numbers: numbers.filter((number) => number > after).slice(0, pageSize) } };
  }

  function tell(number: string, news: Sourcing): Answer {
    const isKnown = changes.some(({ list, record }) => list === 'requisitions' && record.number === number);
    if (!isKnown) return { status: 404, body: { error: `There is no requisition ${number}.` } };
    const isChanged = JSON.stringify(news) !== JSON.stringify(sourcing.get(number));
    sourcing.set(number, news);
    return { status: 200, body: { number, changed: isChanged } };
  }

  async function answer(request: IncomingMessage): Promise<Answer> {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://erp');
    const [resource = '', type = '', number = '', verb = ''] = pathname.slice(1).split('/').map(decodeURIComponent);
    const { authorization } = request.headers;
    if (resource === 'token') {
      await text(request);
      return logIn(authorization);
    }
    const body = request.method === 'GET' ? undefined : await json(request);
    if (!tokens.has(authorization?.replace('Bearer ', '') ?? ''))
      return { status: 401, body: { error: 'The token is not valid, or has expired.' } };
    if (resource === 'me') return { status: 200, body: { user: clientId, may_write: true } };
    if (resource === 'changes') return changesSince(type, Number(searchParams.get('since')));
    if (resource === 'search') return search(type, (body as { keys: string[] }).keys);
    if (resource === 'open') return openAfter(searchParams.get('after') ?? '');
    if (resource === 'show') return show(type, (body as { wanted: { number?: string; key: string }[] }).wanted);
    if (resource === 'requisitions') return tell(type, body as Sourcing);
    if (resource !== 'objects') return { status: 404, body: { error: `There is no ${pathname}.` } };
    if (verb === 'cancel') return change(number, { cancelled: true });
    const object = body as ErpObject;
    return refusal(object) ?? (number === '' ? create(type, object) : change(number, object));
  }

  const server = createServer((request, response) => {
    void answer(request)
      .catch((error: unknown): Answer => ({ status: 400, body: { error: String(error) } }))
      .then(({ status, body }) => {
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      });
  });
  // `unref`: the server does not keep the process alive, so no test has to close it.
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve).unref());

  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** The objects that a user would see on the ERP's screens. */
    held: (type: string, key: string) =>
      [...objects.values()].filter((object) => object.type === type && object.key === key && !object.cancelled),
    allOf: (type: string) => [...objects.values()].filter((object) => object.type === type && !object.cancelled),
    /** Changes an object as a user does on the ERP's screens. */
    edit: (number: string, changed: Partial<ErpObject & { readonly cancelled: boolean }>) => {
      const stored = objects.get(number);
      if (stored) objects.set(number, { ...stored, ...changed, changedBy: 'a person' });
    },
    remove: (number: string) => objects.delete(number),
    sourcingOf: (requisition: string) => sourcing.get(requisition),
    expireLogins: () => tokens.clear(),
    /** Deletes a record, as a user of the ERP does; the list of changes does not show it. */
    deleteRecord: (list: RecordList, number: string) => {
      const at = changes.findIndex((change) => change.list === list && change.record.number === number);
      if (at >= 0) changes.splice(at, 1);
    },
    /** Creates or changes a record, as a user of the ERP does. */
    saveRecord: (list: RecordList, record: ErpRecord) => {
      sequences += 1;
      const sequence = sequences;
      const at = changes.findIndex((change) => change.list === list && change.record.number === record.number);
      if (at >= 0) changes.splice(at, 1);
      changes.push({ sequence, list, record });
    },
  };
}

// Run by itself it is an ERP to try the connector with, until it is stopped.
if (process.argv[1] === import.meta.filename) {
  const { address } = await startMemoryErp({ clientId: 'bridge', clientSecret: 'secret', port: 8099 });
  process.stdout.write(
    `An ERP in memory: base_url ${address}, client_id bridge, client_secret secret. Stop it with Ctrl-C.\n`,
  );
  setInterval(() => undefined, 3_600_000);
}
