/**
 * Reads an answer that comes from outside: of a source, an ERP, a token server or a server of keys. Its
 * `Content-Encoding` is undone, its bytes are decoded by the charset of its `Content-Type`, and its JSON is parsed with
 * exact numbers, all within bounds. What cannot be read is refused: no byte is replaced, as a record with a damaged name
 * would be stored like any other.
 *
 * Example: `Content-Type: application/json; charset=ISO-8859-1` with the bytes `"M\xfcller"` is `Müller`. The same bytes
 * without a charset are refused, because they are not UTF-8.
 *
 * Each function throws AppError: `too-large` with the recovery `skip` beyond a bound, else `unavailable` with `retry`,
 * since a proxy or a server under maintenance may have sent the answer. `subject` begins its text: `The answer to GET
 * /api/jobs`.
 */
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, inflateRaw } from 'node:zlib';
import { AppError, hasErrorCode } from './errors.ts';
import { JsonBoundError, parseExactJson } from './exact-json.ts';

/** The `Accept-Encoding` of a request whose answer is read here. */
export const acceptEncoding = 'gzip, br, deflate';

/** An answer as it came. */
export interface ForeignAnswer {
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Whether the rest of the body is missing. A character that is cut off at the end is left out then. */
  readonly truncated?: boolean;
}

type Unpack = (packed: Buffer, limit: { maxOutputLength: number }) => Promise<Buffer>;

const unzip: Unpack = promisify(gunzip);
const unpackers: Readonly<Record<string, Unpack>> = {
  gzip: unzip,
  'x-gzip': unzip,
  br: promisify(brotliDecompress),
  // RFC 9110, 8.4.1.2: some servers send `deflate` without the header of zlib, whose first byte always ends in 8.
  deflate: (packed, limit) => ((packed[0] ?? 0) % 16 === 8 ? promisify(inflate) : promisify(inflateRaw))(packed, limit),
};

/** Returns the answer with its body as it was before it was compressed. `bytesMax` limits the decompressed size. */
export async function unpackAnswer<Answer extends ForeignAnswer>(
  answer: Answer,
  subject: string,
  bytesMax: number,
): Promise<Answer> {
  const encoding = answer.headers['content-encoding']?.trim().toLowerCase() ?? '';
  if (encoding === '' || encoding === 'identity' || answer.body.length === 0) return answer;
  const unpack = unpackers[encoding];
  if (!unpack) throw unreadable(`${subject} has the Content-Encoding ${shown(encoding)}, which was not asked for.`);
  try {
    return { ...answer, body: await unpack(answer.body, { maxOutputLength: bytesMax }) };
  } catch (cause) {
    if (hasErrorCode(cause, 'ERR_BUFFER_TOO_LARGE'))
      throw tooLarge(`${subject} is larger than ${bytesMax} bytes when it is decompressed.`);
    throw unreadable(`${subject} cannot be decompressed (${encoding}).`, cause);
  }
}

/** Returns the text of an answer that is not compressed, without a byte order mark. Without a charset it is UTF-8. */
export function decodeAnswer({ headers, body, truncated = false }: ForeignAnswer, subject: string): string {
  const charset = charsetOf(headers['content-type'], body);
  const decoder = decoderOf(charset, subject);
  try {
    return decoder.decode(body, { stream: truncated });
  } catch (cause) {
    throw unreadable(`${subject} has bytes that are not ${shown(charset)}.`, cause);
  }
}

function decoderOf(charset: string, subject: string) {
  try {
    return new TextDecoder(charset, { fatal: true });
  } catch (cause) {
    throw unreadable(`${subject} has the charset ${shown(charset)}, which is not known.`, cause);
  }
}

const utf8Mark = Buffer.from([0xef, 0xbb, 0xbf]);

/** The byte order mark says more surely than the header what the bytes are. */
function charsetOf(contentType = '', body: Buffer): string {
  if (body.subarray(0, utf8Mark.length).equals(utf8Mark)) return 'UTF-8';
  return /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(contentType)?.[1] ?? 'UTF-8';
}

/** Returns the JSON of an answer's text. */
export function parseAnswer(text: string, { headers }: Pick<ForeignAnswer, 'headers'>, subject: string): unknown {
  try {
    return parseExactJson(text);
  } catch (error) {
    if (error instanceof JsonBoundError) throw tooLarge(`${subject} ${error.message}.`);
    const type = shown(headers['content-type']?.split(';')[0] ?? 'no content type');
    const page = /html/i.test(type) ? ': it is a page for people, as of a login or of a proxy' : '';
    // The error of the parser is no cause: it quotes the text, which may hold a secret.
    throw unreadable(`${subject} is not JSON (${type})${page}.`);
  }
}

/** Returns the JSON of an answer; `bytesMax` limits the decompressed size. */
export async function readJsonAnswer(answer: ForeignAnswer, subject: string, bytesMax: number): Promise<unknown> {
  const unpacked = await unpackAnswer(answer, subject, bytesMax);
  return parseAnswer(decodeAnswer(unpacked, subject), unpacked, subject);
}

function unreadable(text: string, cause?: unknown): AppError {
  return new AppError('unavailable', text, cause === undefined ? {} : { cause });
}

function tooLarge(text: string): AppError {
  return new AppError('too-large', text, { recovery: { do: 'skip' } });
}

/** The beginning of what a header says. */
function shown(text: string): string {
  return text.slice(0, 100);
}
