/**
 * What SAP says: errors (`error.message`, with details in `innererror.errordetails`, in V4 in `error.details`) and, with a
 * success, warnings in the header `sap-message`, in V4 `sap-messages`. An error of SAP is a refusal of the one record, except where a user holds the document or
 * where it has changed since it was read.
 */
import {
  ConfigError,
  type ConnectorError,
  DataError,
  type HttpRequest,
  type HttpResponse,
  LockedError,
  z,
} from 'sourcing-bridge/connector';

const text = z.union([z.string(), z.object({ value: z.string() }).transform(({ value }) => value)]);
const detail = z
  .looseObject({
    code: z.string().catch(''),
    message: z.string(),
    severity: z.string().optional().catch(undefined),
    target: z.string().nullish().catch(undefined),
    propertyref: z.string().nullish().catch(undefined),
  })
  .transform((given) => ({ ...given, severity: given.severity ?? severityInV4(given) }));
const errorForm = z.object({
  error: z.looseObject({
    code: z.string().catch(''),
    message: text,
    details: z.array(detail).catch([]),
    innererror: z
      .looseObject({ errordetails: z.array(detail).catch([]) })
      .optional()
      .catch(undefined),
  }),
});
const messageForm = z.union([
  z.array(detail),
  z
    .looseObject({ details: z.array(detail).catch([]) })
    .and(detail)
    .transform(({ details, ...own }) => [own, ...details]),
]);

/** By `numericSeverity`, whose name has the alias of a namespace before it in errors. */
const severities = ['success', 'info', 'warning', 'error'];

function severityInV4(entry: Readonly<Record<string, unknown>>): string {
  const [, value] = Object.entries(entry).find(([name]) => name.endsWith('numericSeverity')) ?? [];
  return severities[Number(value) - 1] ?? 'error';
}

const messagesMax = 8;
const charactersMax = 1_500;

/** SAP's own words, in the languages in which users log in most; the connector asks for English. */
const lockWords =
  /\b(?:locked by|is locked|currently (?:being )?(?:processed|edited|locked)|is already (?:being )?(?:processed|processing|edited|editing)|being (?:processed|edited) by|gesperrt)\b/iu;

/** 412: the ETag is not the one that SAP has now. */
export class ChangedSinceRead extends LockedError {}

/** What an answer means where its status does not say it; see `errorOf` of the kit. */
export function errorOfSap(response: HttpResponse, request: HttpRequest): ConnectorError | undefined {
  const { status } = response;
  if (status < 400 || request.accept?.includes(status)) return undefined;
  const words = wordsOf(response);
  if (status === 412)
    return new ChangedSinceRead(
      `SAP: the document was changed after it was read (412${words === undefined ? '' : `, ${words}`}); it is read again`,
    );
  if (status === 428)
    return new ConfigError(`SAP asks for an ETag that it has not sent (428) at ${request.method} ${pathOf(request)}`);
  if (words === undefined) return undefined;
  if (status === 404 && /Resource not found for (?:the )?segment|No service found/iu.test(words))
    return isService.test(words)
      ? new ConfigError(`SAP has no such service: ${words} (${pathOf(request)})`)
      : undefined;
  // A service that is not activated, or a right that is missing, is answered 403, which the kit's own rule covers.
  if (status === 423 || (status < 500 && lockWords.test(words))) return new LockedError(`SAP: ${words}`);
  if (status === 400 || status === 404 || status === 409 || status === 422) return new DataError(`SAP: ${words}`);
  return undefined;
}

const isService = /No service found/iu;

function pathOf({ path }: HttpRequest): string {
  return path.split('?')[0] ?? '';
}

/** The message and its details, each once, with the item that it is about; undefined where it is not SAP's form. */
function wordsOf(response: HttpResponse): string | undefined {
  const parsed = errorForm.safeParse(response.jsonIfAny());
  if (!parsed.success) return undefined;
  const { code, message, details: inV4, innererror } = parsed.data.error;
  const own = { code, message, severity: 'error' };
  const details = [...inV4, ...(innererror?.errordetails ?? [])].filter(
    ({ severity }) => !/^(?:success|info)$/i.test(severity),
  );
  // SAP repeats it among the details; "An exception was raised" says nothing beside them.
  const isSaid =
    details.some((entry) => entry.message === message) ||
    (details.length > 0 && /An exception was raised/iu.test(message));
  return shownOnce(isSaid ? details : [...details, own])
    .slice(0, messagesMax)
    .join('; ')
    .slice(0, charactersMax);
}

/** SAP repeats a message, with its item and without: each is shown once for each item, or once where no item is named. */
function shownOnce(details: readonly z.output<typeof detail>[]): string[] {
  const placed = new Set(details.filter((entry) => placeOf(entry) !== '').map(({ message }) => message));
  const shown = details.filter((entry) => placeOf(entry) !== '' || !placed.has(entry.message)).map(shownDetail);
  return [...new Set(shown)];
}

function shownDetail(entry: z.output<typeof detail>): string {
  const { code, message } = entry;
  const place = placeOf(entry);
  return `${message}${code === '' ? '' : ` (${code})`}${place === '' ? '' : ` [${place}]`}`;
}

/** The item or the field that a message is about; empty where SAP names none. */
function placeOf({ target, propertyref }: z.output<typeof detail>): string {
  const place = [target, propertyref].find((part) => part !== undefined && part !== null && part !== '') ?? '';
  const item = /(?:PurchaseOrderItem|PurchaseContractItem|SupplierQuotationItem)\s*=\s*'?0*(\d+)/u.exec(place)?.[1];
  if (item !== undefined) return `item ${item}`;
  // A name that SAP's program has for an object that is not saved yet.
  return place.startsWith('/#') ? '' : place;
}

/** The warnings of a successful answer, one line each. */
export function warningsIn({ headers }: HttpResponse): string[] {
  const header = headers['sap-message'] ?? headers['sap-messages'];
  if (header === undefined) return [];
  let json: unknown;
  try {
    json = JSON.parse(header);
  } catch {
    return [];
  }
  const parsed = messageForm.safeParse(json);
  if (!parsed.success) return [];
  const warnings = parsed.data.filter(({ severity }) => /^warning$/i.test(severity));
  return shownOnce(warnings)
    .slice(0, messagesMax)
    .map((text) => text.slice(0, 120));
}
