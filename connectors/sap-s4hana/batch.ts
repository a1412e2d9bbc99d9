/**
 * `$batch` of OData, V2 and V4, with one changeset: changes that SAP carries out as one save, or not at all. Contracts can be
 * changed in no other way (KBA 3338491), and each save of an order may send a message to the supplier.
 */
import { type HttpResponse, UnknownOutcome } from 'sourcing-bridge/connector';

/** One change of an entity. */
export interface Change {
  /** In words for an operator: `change item 10 (Sheets)`. */
  readonly what: string;
  readonly method: 'POST' | 'PATCH' | 'DELETE';
  readonly set: string;
  /** Undefined for an entity that is made. */
  readonly key?: Key;
  /** Of a part that is added to the entity. */
  readonly navigation?: string;
  readonly body?: object;
  /** The units and currencies of amounts in the body, which V4 wants beside each (KBA 3360429). */
  readonly units?: Readonly<Record<string, string>>;
  /** Of the entity as it was read; without one, whatever SAP holds is changed. */
  readonly etag?: string | undefined;
}

/** A text where the key is one field, which has the name of its set. */
export type Key = string | Readonly<Record<string, string>>;

/** `A_PurchaseOrder('4500000001')/to_PurchaseOrderItem`, relative to the service. */
export function pathOf({ set, key, navigation }: Pick<Change, 'set' | 'key' | 'navigation'>): string {
  if (key === undefined) return set;
  const text =
    typeof key === 'string'
      ? literal(key)
      : Object.entries(key)
          .map(([name, value]) => `${name}=${literal(value)}`)
          .join(',');
  const entity = `${set}(${encodeURIComponent(text.toWellFormed())})`;
  return navigation === undefined ? entity : `${entity}/${navigation}`;
}

/** A text in a filter or a key. */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

const batchBoundary = 'batch_sourcing-bridge';
const setBoundary = 'changeset_sourcing-bridge';
export const batchType = `multipart/mixed; boundary=${batchBoundary}`;

/** `type` is that of the JSON. */
export function batchBody(changes: readonly Change[], type: string): string {
  const parts = changes.map((change, index) => {
    const { method, body, etag } = change;
    const json = body === undefined ? '' : JSON.stringify(body);
    const lines = [
      `--${setBoundary}`,
      'Content-Type: application/http',
      'Content-Transfer-Encoding: binary',
      // OData 4.0 wants one in each part of a changeset.
      `Content-ID: ${index + 1}`,
      '',
      `${method} ${pathOf(change)} HTTP/1.1`,
      `Accept: ${type}`,
      `Content-Type: ${type}`,
      `Content-Length: ${Buffer.byteLength(json)}`,
      ...(method === 'POST' ? [] : [`If-Match: ${etag ?? '*'}`]),
      '',
      json,
      '',
    ];
    return lines.join('\r\n');
  });
  const head = [`--${batchBoundary}`, `Content-Type: multipart/mixed; boundary=${setBoundary}`, '', ''];
  return `${head.join('\r\n')}${parts.join('')}--${setBoundary}--\r\n--${batchBoundary}--\r\n`;
}

/**
 * The answers to the changes; only one, with an error, where SAP has refused them all. Throws UnknownOutcome for an
 * answer that is none of a batch.
 */
export function batchAnswers(response: HttpResponse): HttpResponse[] {
  const answers = partsOf(response.headers['content-type'] ?? '', response.text()).flatMap((part) => {
    const { headers, rest } = dividedAtBlankLine(part);
    const type = headers['content-type'] ?? '';
    return /^multipart\//iu.test(type) ? partsOf(type, rest) : [part];
  });
  const parsed = answers.map((part) => answerIn(dividedAtBlankLine(part).rest));
  if (parsed.length > 0) return parsed;
  throw new UnknownOutcome('SAP answered a batch without an answer to any of its changes', { answered: true });
}

function partsOf(type: string, text: string): string[] {
  const boundary = /boundary="?([^";]+)"?/iu.exec(type)?.[1];
  if (boundary === undefined) return [];
  const [, ...parts] = `\n${text.replaceAll('\r\n', '\n')}`.split(`\n--${boundary}`);
  return parts.filter((part) => !part.startsWith('--')).map((part) => part.replace(/^\n/u, ''));
}

function dividedAtBlankLine(part: string): { headers: Record<string, string>; rest: string } {
  const text = part.replaceAll('\r\n', '\n');
  const end = text.indexOf('\n\n');
  const head = end < 0 ? text : text.slice(0, end);
  const headers = head.split('\n').flatMap((line) => {
    const colon = line.indexOf(':');
    return colon < 0 ? [] : [[line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()] as const];
  });
  return { headers: Object.fromEntries(headers), rest: end < 0 ? '' : text.slice(end + 2) };
}

/** An answer inside of a batch: its status line, its headers and its body. */
function answerIn(text: string): HttpResponse {
  const { headers, rest } = dividedAtBlankLine(text);
  const status = Number(/^HTTP\/\d\.\d (\d{3})/u.exec(text)?.[1]);
  if (Number.isNaN(status))
    throw new UnknownOutcome('SAP answered a change in a batch without a status', { answered: true });
  const json = () => JSON.parse(rest) as unknown;
  const jsonIfAny = () => {
    try {
      return json();
    } catch {
      return undefined;
    }
  };
  return { status, headers, bytes: Buffer.from(rest), text: () => rest, json, jsonIfAny };
}
