/**
 * GET /downloads/{token}: the pre-signed links. No other authentication is needed: a client that has a valid token may
 * read that one file. An uploaded file may hold anything, so it is served in a way that no browser shows it as a page
 * of this service. Source: API document, "Authentication" 6 and "Errors".
 *
 * A download that broke off is continued with `Range`, and `If-Range` with the `ETag`: also by another link to the same
 * file, because the tag is the file's, whose bytes never change.
 */
import { pipeline } from 'node:stream/promises';
import type { Express, Request, Response } from 'express';
import type { Clock } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError, hasErrorCode } from '#platform/errors.ts';
import type { Heartbeat } from '#platform/heartbeat.ts';
import { protectConnection } from '#platform/http/connections.ts';
import { allowNotModified } from '#platform/http/endpoint.ts';
import { refuseMethod } from '#platform/http/problem.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { readRange } from './byte-range.ts';
import { readLinkToken } from './link-token.ts';
import type { ByteRange, FileStorage, OpenFile } from './storage/file-storage.ts';

interface FileRow {
  id: string;
  organisation_id: string;
  file_name: string;
  content_type: string;
  size: number;
}

interface Deps {
  database: Sql;
  storage: FileStorage;
  secrets: SecretBox;
  clock: Clock;
  unlessSilent: Heartbeat['unlessSilent'];
}

/** What the tokens of these links are for. */
export const downloadLink = 'download link';

const path = '/downloads/:token';
/** The connection of a client that has read nothing for this long is closed. */
const stalledMs = 60_000;

/** Mounts the route. It needs no bearer token, and no unit of work, because it changes nothing. */
export function serveDownloads(app: Express, { database, storage, secrets, clock, unlessSilent }: Deps): void {
  app.get(path, async (request, response) => {
    // The route's template, not its path: the token must not get into metrics or logs.
    response.locals.route = path;
    response.setHeader('Cache-Control', 'private, no-store');
    const id = readLinkToken(secrets, downloadLink, request.params.token, clock.nowMs());
    if (id === undefined)
      throw new AppError(
        'forbidden',
        'This download link is not valid, or has expired. Submit a new job for a new one.',
      );
    const rows = database.query<FileRow>(
      "select id, organisation_id, file_name, content_type, size from service.files where id = $1 and state = 'file'",
      [id],
    );
    const [file] = await unlessSilent(rows);
    if (!file) throw missing(id, 'row');
    protectConnection(request);
    response.setHeader('ETag', tagOf(file));
    response.setHeader('Accept-Ranges', 'bytes');
    allowNotModified(request);
    if (request.fresh) {
      response.status(304).end();
      return;
    }
    const part = askedPart(request, file);
    if (part === 'beyond') {
      response.setHeader('Content-Range', `bytes */${file.size}`);
      throw new AppError('no-such-range', `The file has ${file.size} bytes.`);
    }
    await send(response, file, part, await openWhole(storage, file, part));
  });
  app.route(path).all((request, response) => refuseMethod(request, response, path, 'GET, HEAD'));
}

/** An id is never used for other bytes. */
function tagOf({ id }: FileRow): string {
  return `"${id}"`;
}

/** The whole file also for HEAD, and for a client that holds the beginning of another file. */
function askedPart(request: Request, file: FileRow): ReturnType<typeof readRange> {
  const holds = request.get('if-range');
  const isForThis = holds === undefined || holds === tagOf(file);
  return request.method === 'GET' && isForThis ? readRange(request.get('range'), file.size) : undefined;
}

/** Throws `internal`, which is logged, when the storage has lost the file or part of it. */
async function openWhole(storage: FileStorage, { id, size }: FileRow, part: ByteRange | undefined): Promise<OpenFile> {
  const open = await storage.get(id, part);
  if (open === undefined) throw missing(id, 'bytes');
  if (open.size === size) return open;
  open.stream.destroy();
  throw missing(id, `all bytes: the storage holds ${open.size} of ${size}`);
}

function missing(id: string, what: string): AppError {
  return new AppError('internal', 'The file is missing.', { message: `file ${id} has no ${what}` });
}

/**
 * RFC 6266: the name in quotes for every client, and also in UTF-8 (RFC 8187) when the quoted form cannot hold it. A
 * percent sign needs the second form, because some clients decode it in the first.
 */
function dispositionOf(name: string): string {
  const plain = name.replaceAll(/[^\x20-\x7e]/gu, '?');
  const quoted = `attachment; filename="${plain.replaceAll('"', '\\"')}"`;
  if (plain === name && !name.includes('%')) return quoted;
  const encoded = encodeURIComponent(name).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16)}`,
  );
  return `${quoted}; filename*=UTF-8''${encoded}`;
}

async function send(
  response: Response,
  file: FileRow,
  part: ByteRange | undefined,
  { stream }: OpenFile,
): Promise<void> {
  response.setHeader('Content-Disposition', dispositionOf(file.file_name));
  response.setHeader('Content-Type', file.content_type);
  response.setHeader('Content-Length', part ? part.last - part.first + 1 : file.size);
  if (part) response.status(206).setHeader('Content-Range', `bytes ${part.first}-${part.last}/${file.size}`);
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Content-Security-Policy', "sandbox; default-src 'none'");
  if (response.req.method === 'HEAD') {
    stream.destroy();
    response.end();
    return;
  }
  response.setTimeout(stalledMs, () => response.destroy());
  try {
    await pipeline(stream, response);
  } catch (error) {
    // The client has closed the connection: the stream is closed, and no answer can be sent.
    if (hasErrorCode(error, 'ERR_STREAM_PREMATURE_CLOSE')) return;
    throw error;
  }
}
