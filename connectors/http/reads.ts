/**
 * Reads suppliers from a list of the ERP, page by page, as the settings describe. With `{since}` in the path a read asks
 * only for what has changed since some time before the last one began: by the ERP's clock or by this one, whichever is
 * earlier. Every later page is asked for below the base URL only: no answer can send the login elsewhere.
 */
import { createHash } from 'node:crypto';
import {
  type CheckResult,
  type Clock,
  ConfigError,
  compileJsonPath,
  compileSupplierPlaces,
  type Http,
  type HttpResponse,
  namedPlaces,
  type ReadPage,
  TransientError,
  z,
} from 'sourcing-bridge/connector';
import { exactNumbers } from './answers.ts';
import type { ReadSettings } from './settings.ts';

const walkForm = z.object({ beganMs: z.number(), path: z.string(), pages: z.number() });
const checkpointForm = z.object({
  /** Which list it belongs to. */
  of: z.string(),
  /** What has changed since then is read; without it, everything. */
  sinceMs: z.number().optional(),
  /** A read that has not come to its end: when it began, its next page, and how many it has had. */
  walk: walkForm.optional(),
});
type Checkpoint = z.output<typeof checkpointForm>;

/** What an answer says when the page that a stored checkpoint asks for is not there any more. */
const goneStatuses = [400, 404, 410, 422];
const checkMs = 10_000;

interface ReadDeps {
  readonly http: Http;
  readonly baseUrl: string;
  readonly clock: Clock;
}

/** The reader of suppliers. Throws ConnectorErrors. */
export function createSupplierReader({ http, baseUrl, clock }: ReadDeps, settings: ReadSettings) {
  const of = createHash('sha256')
    .update(JSON.stringify([settings.path, settings.next]))
    .digest('hex');
  const toPage = compilePage(settings);
  const nextOf = compileNext(settings, baseUrl);

  async function* read(checkpoint: string | undefined, signal: AbortSignal): AsyncGenerator<ReadPage<'supplier'>> {
    let at = checkpointOf(checkpoint, of);
    let isStored = at.walk !== undefined;
    let last: string | undefined;
    for (;;) {
      const nowMs = clock.nowMs();
      const walk = at.walk ?? { beganMs: nowMs, path: pathSince(settings, at.sinceMs), pages: 0 };
      const accept = isStored ? goneStatuses : [];
      const response = await http.request({ method: 'GET', path: walk.path, accept, signal });
      if (isStored && goneStatuses.includes(response.status)) {
        isStored = false;
        at = { of, ...(at.sinceMs === undefined ? {} : { sinceMs: at.sinceMs }) };
        continue;
      }
      isStored = false;
      const beganMs = walk.pages === 0 ? Math.min(walk.beganMs, clockOf(response) ?? nowMs) : walk.beganMs;
      const { entries, page, answer } = toPage(response);
      const next = nextOf({ path: walk.path, pages: walk.pages + 1, entries: entries.length, answer, response });
      // A list that does not change from page to page would never end.
      const body = next === undefined ? undefined : createHash('sha256').update(response.bytes).digest('hex');
      if (next === walk.path || (body !== undefined && body === last && entries.length > 0))
        throw new ConfigError(
          `${walk.path} returns the same page again and again: settings.read.supplier.next is wrong.`,
        );
      last = body;
      if (walk.pages + 1 >= settings.pages_max && next !== undefined)
        throw new ConfigError(`The list has more than ${settings.pages_max} pages (settings.read.supplier.pages_max).`);
      at =
        next === undefined
          ? { of, ...(settings.since ? { sinceMs: beganMs - settings.since.overlap_seconds * 1_000 } : {}) }
          : { ...at, walk: { beganMs, path: next, pages: walk.pages + 1 } };
      yield { ...page, checkpoint: JSON.stringify(at) };
      if (next === undefined) return;
    }
  }

  return read;
}

/** Asks for the first page of what has changed just now. Never rejects. */
export async function checkRead({ http, clock }: ReadDeps, settings: ReadSettings): Promise<CheckResult> {
  const name = `read ${settings.path}`;
  try {
    const path = pathSince(settings, clock.nowMs());
    const response = await http.request({ method: 'GET', path, signal: AbortSignal.timeout(checkMs) });
    const { entries, page } = compilePage(settings)(response);
    const [fault] = page.faults;
    if (fault) return { name, ok: false, message: `${fault.where}: ${fault.why}.` };
    return { name, ok: true, message: `${settings.path} answers with a list of ${entries.length} suppliers.` };
  } catch (error) {
    return { name, ok: false, message: error instanceof Error ? error.message : String(error) };
  }
}

function checkpointOf(stored: string | undefined, of: string): Checkpoint {
  if (stored === undefined) return { of };
  let given: unknown;
  try {
    given = JSON.parse(stored);
  } catch {
    given = undefined;
  }
  const read = checkpointForm.safeParse(given);
  if (!read.success)
    throw new ConfigError('The checkpoint was not written by the http connector: start this read from the beginning.');
  return read.data.of === of ? read.data : { of };
}

function pathSince({ path, since }: ReadSettings, sinceMs = 0): string {
  if (!since) return path;
  const date = new Date(sinceMs);
  const seconds = Math.floor(sinceMs / 1_000);
  const texts = {
    iso: `${new Date(seconds * 1_000).toISOString().slice(0, 19)}Z`,
    date: date.toISOString().slice(0, 10),
    seconds: String(seconds),
    milliseconds: String(Math.floor(sinceMs)),
  };
  return path.replaceAll('{since}', encodeURIComponent(texts[since.format]));
}

/** The ERP's time, in whole seconds. */
function clockOf({ headers }: HttpResponse): number | undefined {
  const ms = Date.parse(headers['date'] ?? '');
  return Number.isNaN(ms) ? undefined : ms;
}

function compilePage({ list, record, path }: ReadSettings) {
  const listOf = list === undefined ? (answer: unknown) => answer : compileJsonPath(list);
  const named = new Set(namedPlaces(record));
  const toRecord = compileSupplierPlaces<unknown>(record, compileJsonPath, (entry) =>
    Object.fromEntries(
      Object.entries(typeof entry === 'object' && entry !== null ? entry : {}).filter(
        ([name, value]) => !named.has(name) && (typeof value !== 'object' || value === null),
      ),
    ),
  );
  return (response: HttpResponse) => {
    const answer = exactNumbers(response);
    const entries = listOf(answer);
    if (!Array.isArray(entries))
      throw new TransientError(
        `the answer to GET ${path} has no list ${list === undefined ? 'as its whole body' : `at ${list}`}`,
      );
    const read = entries.map((entry: unknown, index) => toRecord(entry, `GET ${path}, entry ${index + 1} of its page`));
    const records = read.flatMap((each) => ('record' in each ? [each.record] : []));
    const faults = read.flatMap((each) => ('fault' in each ? [each.fault] : []));
    return { answer, entries: entries as readonly unknown[], page: { records, faults } };
  };
}

interface Asked {
  readonly path: string;
  /** How many pages were asked for. */
  readonly pages: number;
  readonly entries: number;
  readonly answer: unknown;
  readonly response: HttpResponse;
}

/** Returns the path of the page after this one; undefined after the last. */
function compileNext({ next }: ReadSettings, baseUrl: string): (asked: Asked) => string | undefined {
  if (next === undefined) return () => undefined;
  if (next === 'link')
    return ({ path, response }) => {
      const target = linkOf(response.headers['link'] ?? '');
      return target === undefined ? undefined : pathBelow(baseUrl, path, target);
    };
  if ('url' in next) {
    const read = compileJsonPath(next.url);
    return ({ path, answer }) => {
      const target = read(answer);
      return typeof target === 'string' && target !== '' ? pathBelow(baseUrl, path, target) : undefined;
    };
  }
  if ('cursor' in next) {
    const read = compileJsonPath(next.cursor);
    return ({ path, answer }) => {
      const cursor = read(answer);
      return typeof cursor === 'string' && cursor !== '' ? withParameter(path, next.parameter, cursor) : undefined;
    };
  }
  if ('page' in next) {
    return ({ path, pages, entries }) =>
      entries === 0 || entries < (next.size ?? 0)
        ? undefined
        : withParameter(path, next.page, String(next.first + pages));
  }
  return ({ path, entries }) => {
    if (entries === 0 || entries < (next.size ?? 0)) return undefined;
    const before = Number(new URL(`http://erp${path}`).searchParams.get(next.offset) ?? 0);
    return withParameter(path, next.offset, String(before + entries));
  };
}

function withParameter(path: string, name: string, value: string): string {
  const url = new URL(`http://erp${path}`);
  url.searchParams.set(name, value);
  return `${url.pathname}${url.search}`;
}

/** The target of `<…>; rel="next"` (RFC 8288). */
function linkOf(header: string): string | undefined {
  for (const [, target, params] of header.matchAll(/<([^<>]*)>((?:\s*;\s*[^;,"=]+(?:=(?:"[^"]*"|[^;,"]*))?)*)/g))
    if (/;\s*rel\s*=\s*(?:"(?:[^"]*\s)?next(?:\s[^"]*)?"|next\b)/i.test(params ?? '')) return target;
  return undefined;
}

/** The path, below the base URL, of a URL that an answer names. Throws ConfigError for any other place. */
function pathBelow(baseUrl: string, path: string, target: string): string {
  const base = new URL(baseUrl);
  const prefix = base.pathname.replace(/\/$/, '');
  const url = URL.canParse(target, `${base.origin}${prefix}${path}`)
    ? new URL(target, `${base.origin}${prefix}${path}`)
    : undefined;
  if (url?.origin !== base.origin || !`${url.pathname}/`.startsWith(`${prefix}/`))
    throw new ConfigError('The next page is not below base_url: the login is not sent there.');
  return `${url.pathname.slice(prefix.length)}${url.search}`;
}
