/** `$batch` of OData V2: one changeset, which is carried out as a whole or not at all. */

export interface Call {
  readonly method: string;
  /** Relative to the service, or absolute. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The calls of the only changeset in this body. Throws for anything that is not one, written as OData asks. */
export function parseChangeset(contentType: string, body: string): Call[] {
  const [only, ...more] = partsOf(body, boundaryIn(contentType));
  if (only === undefined || more.length > 0) throw new Error('The stub takes a batch of one changeset.');
  const { headers, rest } = divided(only);
  return partsOf(rest, boundaryIn(headers['content-type'] ?? '')).map((part) => {
    const outer = divided(part);
    if (outer.headers['content-type'] !== 'application/http') throw new Error('A part is no application/http.');
    if (outer.headers['content-transfer-encoding'] !== 'binary') throw new Error('A part is not binary.');
    if (outer.headers['content-id'] === undefined) throw new Error('A part has no Content-ID, which V4 wants.');
    const [line = '', ...lines] = outer.rest.split('\r\n');
    const [, method, path] = /^(POST|PATCH|MERGE|DELETE) (\S+) HTTP\/1\.1$/.exec(line) ?? [];
    if (method === undefined || path === undefined) throw new Error(`No request of a changeset: ${line}`);
    const inner = divided(lines.join('\r\n'));
    return { method, path, headers: inner.headers, body: inner.rest.trim() };
  });
}

/** A body with these calls as one changeset, and its content type. */
export function changesetOf(calls: readonly Call[]): { body: string; type: string } {
  const parts = calls.map(
    ({ method, path, body }) =>
      `--cs\r\ncontent-type: application/http\r\ncontent-transfer-encoding: binary\r\n\r\n${method} ${path} HTTP/1.1\r\ncontent-type: application/json\r\naccept: application/json\r\nif-match: *\r\n\r\n${body}\r\n`,
  );
  const body = `--b\r\ncontent-type: multipart/mixed; boundary=cs\r\n\r\n${parts.join('')}--cs--\r\n--b--\r\n`;
  return { body, type: 'multipart/mixed; boundary=b' };
}

/** What SAP answers: the answers of a changeset that was carried out, or the one refusal. */
export function batchAnswer(answers: readonly { status: number; headers: object; body: string }[], isDone: boolean) {
  const parts = answers.map(({ status, headers, body }) => {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    const head = [`HTTP/1.1 ${status} Some reason`, ...lines, `content-length: ${Buffer.byteLength(body)}`];
    return `content-type: application/http\r\ncontent-transfer-encoding: binary\r\n\r\n${head.join('\r\n')}\r\n\r\n${body}\r\n`;
  });
  const inside = isDone
    ? `content-type: multipart/mixed; boundary=set\r\n\r\n${parts.map((part) => `--set\r\n${part}`).join('')}--set--\r\n`
    : (parts[0] ?? '');
  return { body: `--answer\r\n${inside}--answer--\r\n`, type: 'multipart/mixed; boundary=answer' };
}

/** The status and the body of the first answer with an error in what SAP's OData server answers; undefined for none. */
export function refusalIn(answer: string): { status: number; message: string } | undefined {
  const [, status = '', text = ''] = /HTTP\/1\.1 ([45]\d\d)[\s\S]*?\r\n\r\n([^\r\n]*)/.exec(answer) ?? [];
  if (status === '') return undefined;
  const { error } = JSON.parse(text || '{}') as { error?: { message?: { value?: string } } };
  return { status: Number(status), message: error?.message?.value ?? 'Refused' };
}

function boundaryIn(contentType: string): string {
  const boundary = /^multipart\/mixed;\s*boundary="?([\w-]+)"?$/.exec(contentType)?.[1];
  if (boundary === undefined) throw new Error(`No multipart/mixed with a boundary: ${contentType}`);
  return boundary;
}

function partsOf(body: string, boundary: string): string[] {
  const [, ...parts] = `\r\n${body}`.split(`\r\n--${boundary}`);
  if (!parts.at(-1)?.startsWith('--')) throw new Error(`The parts of ${boundary} have no end.`);
  return parts.slice(0, -1).map((part) => part.replace(/^\r\n/, ''));
}

function divided(part: string): { headers: Record<string, string>; rest: string } {
  const end = part.indexOf('\r\n\r\n');
  const head = part.slice(0, end < 0 ? part.length : end);
  const headers = head.split('\r\n').flatMap((line): [string, string][] => {
    const [, name, value] = /^([\w-]+):\s*(.*)$/.exec(line) ?? [];
    return name === undefined || value === undefined ? [] : [[name.toLowerCase(), value]];
  });
  return { headers: Object.fromEntries(headers), rest: end < 0 ? '' : part.slice(end + 4) };
}
