/**
 * GET /downloads/{token}: the pre-signed links. No other authentication is needed: a client that has a valid token may
 * read that one file. An uploaded file may hold anything, so it is served in a way that no browser shows it as a page
 * of this service. Source: API document, "Authentication" 6 and "Errors".
 */
import { pipeline } from 'node:stream/promises';
import type { Express, Response } from 'express';
import type { Clock } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError, hasErrorCode } from '#platform/errors.ts';
import type { FileStorage, OpenFile } from '#platform/file-storage.ts';
import { refuseMethod } from '#platform/http/problem.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { readDownloadToken } from './download-token.ts';

interface FileRow {
  id: string;
  file_name: string;
  content_type: string;
  size: number;
}

interface Deps {
  database: Sql;
  storage: FileStorage;
  secrets: SecretBox;
  clock: Clock;
}

const path = '/downloads/:token';
/** The connection of a client that has read nothing for this long is closed. */
const stalledMs = 60_000;

/** Mounts the route. It needs no bearer token, and no unit of work, because it changes nothing. */
export function serveDownloads(app: Express, { database, storage, secrets, clock }: Deps): void {
  app.get(path, async (request, response) => {
    // The route's template, not its path: the token must not get into metrics or logs.
    response.locals.route = path;
    response.setHeader('Cache-Control', 'private, no-store');
    const id = readDownloadToken(secrets, request.params.token, clock.nowMs());
    if (id === undefined)
      throw new AppError(
        'forbidden',
        'This download link is not valid, or has expired. Submit a new job for a new one.',
      );
    const [file] = await database.query<FileRow>(
      'select id, file_name, content_type, size from service.files where id = $1',
      [id],
    );
    if (!file) throw missing(id, 'row');
    await send(response, file, await openWhole(storage, file), request.method === 'HEAD');
  });
  app.route(path).all((request, response) => refuseMethod(request, response, path, 'GET, HEAD'));
}

/** Throws `internal`, which is logged, when the storage has lost the file or part of it. */
async function openWhole(storage: FileStorage, { id, size }: FileRow): Promise<OpenFile> {
  const open = await storage.get(id);
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

async function send(response: Response, file: FileRow, { stream }: OpenFile, headOnly: boolean): Promise<void> {
  response.setHeader('Content-Disposition', dispositionOf(file.file_name));
  response.setHeader('Content-Type', file.content_type);
  response.setHeader('Content-Length', file.size);
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Content-Security-Policy', "sandbox; default-src 'none'");
  if (headOnly) {
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
