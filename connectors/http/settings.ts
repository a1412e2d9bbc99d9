/** The schema of the settings. `faultsOf` (check-settings.ts) checks the paths and templates in them. */
import { documentKinds, requisitionPlaces, secret, supplierPlaces, z } from 'sourcing-bridge/connector';

const seconds = z.number().positive().max(3_600);
const waitSeconds = z.number().min(0).max(86_400);
const statusForm = z.union([z.int().min(100).max(599), z.string().regex(/^(?:[1-5]xx|[1-5]\d\d(?:-[1-5]\d\d)?)$/)]);
const optionalText = z.string().optional();
const texts = z.array(z.string()).default([]);
const headers = z.record(z.string(), z.string()).default({});
const single = z.union([z.string(), z.number(), z.boolean(), z.null()]);

const auth = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('none') }),
  z.strictObject({ type: z.literal('basic'), user: z.string().min(1), password: secret() }),
  z.strictObject({ type: z.literal('bearer'), token: secret() }),
  z.strictObject({
    type: z.literal('header'),
    name: z.string().min(1).describe('For example X-API-Key'),
    value: secret(),
    prefix: z.string().default('').describe('Written before the value'),
  }),
  z.strictObject({
    type: z.literal('oauth'),
    token_url: z.string().min(1).describe('A full URL, or a path below base_url'),
    client_id: z.string().min(1),
    client_secret: secret(),
    scope: z.string().optional(),
    in_body: z.boolean().default(false).describe('Id and secret in the body instead of the Authorization header'),
    fields: z
      .record(z.string(), z.string())
      .default({})
      .describe('Further fields of the token request, such as audience'),
  }),
]);

const signature = z.strictObject({
  secret: secret(),
  header: z.string().min(1),
  algorithm: z.enum(['sha256', 'sha512']).default('sha256'),
  encoding: z.enum(['hex', 'base64']).default('hex'),
  prefix: z.string().default(''),
  timestamp_header: optionalText.describe('When set, <seconds since 1970>.<body> is signed, and it has the seconds'),
});

const body = z.union([
  z.enum(['document', 'file', 'none']),
  z.strictObject({ json: z.unknown() }),
  z.strictObject({ multipart: z.record(z.string(), z.unknown()) }),
]);

const request = z.strictObject({
  method: z.enum(['POST', 'PUT', 'PATCH', 'DELETE']),
  path: z.string(),
  headers,
  body: body.optional().describe('document: the whole document with its content_hash; file: the bytes of a file'),
});

const contentHashForm = z.union([z.strictObject({ body: z.string() }), z.strictObject({ header: z.string() })]);
const referenceForm = z.union([
  z.enum(['key', 'location']),
  ...contentHashForm.options,
  z.strictObject({ captured: z.string() }),
]);

/** A request that asks what the ERP holds. */
const search = z.strictObject({
  method: z.enum(['GET', 'HEAD', 'POST']).default('GET'),
  path: z.string(),
  headers,
  body: z.strictObject({ json: z.unknown() }).optional(),
  absent: z.array(z.int()).default([404, 410]).describe('Statuses that say that the ERP holds nothing'),
  list: optionalText.describe('The path of the found objects in the answer; without it the answer is the found object'),
  where: z
    .record(z.string(), z.union([z.string(), z.array(z.string()).min(1)]))
    .default({})
    .describe('Which found objects are meant: paths into them, each with a value or a list of values'),
  ignore_others: z
    .boolean()
    .default(false)
    .describe('The answer also has other objects, and always all of them at once'),
});

const lookup = search.extend({
  reference: optionalText.describe('The path of the reference in a found object; default: `reference` of the kind'),
  content_hash: contentHashForm.optional(),
  withdrawn: z
    .strictObject({ path: z.string(), is: z.array(single).min(1) })
    .optional()
    .describe('Which found objects are cancelled, and still shown'),
});

const readBack = z.strictObject({
  fields: z
    .unknown()
    .optional()
    .describe('What the found object must have, as a template of JSON; default: the JSON that create sends'),
  at: optionalText.describe('The path of these values in a found object; default: the object itself'),
  decimals: texts.describe('Members that are decimals, for example price: 1.50 and 1.5 are the same'),
  names: texts.describe('Members by which entries of lists are known, for example lot; others by their place'),
  changed: z
    .strictObject({ by: z.string().optional(), at: z.string().optional() })
    .default({})
    .describe('The paths in a found object of who has changed it last, and when'),
});

const conditions = z.record(
  z.string(),
  z.union([
    single,
    z.array(single).min(1),
    z.strictObject({ matches: z.string() }),
    z.strictObject({ exists: z.boolean() }),
  ]),
);

const meanings = [
  'done',
  'data',
  'conflict',
  'transient',
  'rate-limited',
  'locked',
  'auth',
  'login-expired',
  'config',
  'unknown',
] as const;

const answerRule = z.strictObject({
  status: z.union([statusForm, z.array(statusForm).min(1)]).optional(),
  body: conditions.default({}).describe('Paths into the answer, and the value that each must have'),
  means: z.enum(meanings),
});

const captureName = z.string().regex(/^[A-Za-z_]\w{0,99}$/, 'must be a name of letters, digits and _');
const capture = z.record(captureName, z.string());

const step = request.extend({
  name: z.string().min(1).max(100).describe('For people: a dead letter names the step'),
  when: conditions
    .default({})
    .describe('The step is left out unless these paths into the document, or captured.<name>, have these values'),
  find: search
    .extend({ capture: capture.optional().describe('Paths into the found object; default: `capture` of the step') })
    .optional()
    .describe('Asks whether the step has been done for this version of the document; then it is left out'),
  capture: capture
    .default({})
    .describe('Values of the answer for later steps: a name, as in {captured.name}, and its path'),
  answers: z.array(answerRule).default([]).describe('As `answers` of the connector, and before them'),
});

const requests = z.union([request, z.array(step).min(1).max(10)]);

const kindSettings = z.strictObject({
  create: requests.optional().describe('A request, or a list of steps: up to ten requests in their order'),
  amend: requests.optional().describe('Default: as create, if that is a PUT or a list of steps'),
  cancel: requests.optional(),
  lookup: lookup.optional(),
  read_back: readBack
    .optional()
    .describe('How bridge reconcile compares what the lookup finds with what was delivered; without it: not compared'),
  reference: referenceForm.default('key').describe('Where the answer to create has the reference'),
});

const parameter = z.string().regex(/^[A-Za-z0-9_.$[\]-]{1,100}$/, 'must be the name of a query parameter');

const listSettings = z.strictObject({
  path: z
    .string()
    .regex(/^\/[^\s#]*$/, 'must begin with /')
    .describe('The list, for example /vendors?limit=200&changed_since={since}'),
  since: z
    .strictObject({
      format: z.enum(['iso', 'date', 'seconds', 'milliseconds']).default('iso').describe('The form of {since}'),
      overlap_seconds: z
        .number()
        .min(0)
        .max(31 * 86_400)
        .default(600)
        .describe('How long before the begin of the last read {since} is: for changes that the list shows late'),
    })
    .optional()
    .describe('With {since} in the path; without both, each read returns everything'),
  list: optionalText.describe('The path of the list in the answer; default: the answer is the list'),
  next: z
    .union([
      z.literal('link'),
      z.strictObject({ url: z.string() }),
      z.strictObject({ cursor: z.string(), parameter }),
      z.strictObject({ last: z.string(), parameter }),
      z.strictObject({ page: parameter, first: z.int().min(0).default(1) }),
      z.strictObject({ offset: parameter }),
    ])
    .optional()
    .describe(
      "How the next page is asked for: link for the header Link, the path of a URL or a cursor in the answer, the path of the id in the page's last entry (last), a page number or an offset; default: there is one page",
    ),
  has_more: optionalText.describe('The path in the answer of true or false: whether there is a next page'),
  total: optionalText.describe('The path of the number of all entries: a read that ends with fewer of them fails'),
  pages_max: z.int().min(1).max(1_000_000).default(10_000).describe('A read with more pages fails'),
});

export type ListSettings = z.output<typeof listSettings>;
/** How a list has its entries and its pages. */
export type PageSettings = Pick<ListSettings, 'path' | 'list' | 'next' | 'has_more' | 'total' | 'pages_max'>;

const openListSettings = listSettings.omit({ since: true }).extend({
  path: listSettings.shape.path.describe(
    'The list of all requisitions that are open, for example /requisitions?open=1',
  ),
  reference_id: optionalText.describe("The path of the number in an entry; default: the record's"),
  open: requisitionPlaces.shape.open.describe(
    'Which entries are open, as `record.open`, for a list that has others, too; default: all of them',
  ),
});

export type OpenListSettings = z.output<typeof openListSettings>;

const acknowledgeSettings = z.strictObject({
  method: z.enum(['PUT', 'PATCH', 'POST']),
  path: z.string().describe('For example /requisitions/{requisition}/sourcing'),
  headers,
  body: z
    .union([z.enum(['news', 'none']), z.strictObject({ json: z.unknown() })])
    .default('news')
    .describe('news: requisition, status, event, reason, text and idempotency_key as JSON; or a template'),
});

export type AcknowledgeSettings = z.output<typeof acknowledgeSettings>;

const readSettings = z.strictObject({
  supplier: listSettings.extend({ record: supplierPlaces.describe('The paths of the parts of a supplier') }).optional(),
  requisition: listSettings
    .extend({
      record: requisitionPlaces.describe('The paths of the parts of a requisition'),
      open_list: openListSettings
        .optional()
        .describe('Asked after each read: an open requisition that is missing in it twice counts as withdrawn'),
      acknowledge: acknowledgeSettings
        .optional()
        .describe('The request that tells the ERP what became of a requisition; default: it is not told'),
    })
    .optional(),
});

export type ReadSettings = z.output<typeof readSettings>;

export const settingsSchema = z.strictObject({
  base_url: z.string().min(1).describe('For example https://erp.example.com/api; all paths are appended to it'),
  auth: auth.default({ type: 'none' }),
  signature: signature.optional().describe('An HMAC over the body, in addition to `auth`'),
  ca_file: optionalText.describe('PEM of certificate authorities that are trusted beside the usual ones'),
  client_certificate: z.strictObject({ certificate_file: z.string(), key_file: z.string() }).optional(),
  headers: headers.describe('Sent with each request; secrets belong under auth'),
  idempotency_header: optionalText.describe('For example Idempotency-Key: sent with each request that writes'),
  object_url: z
    .string()
    .regex(
      /^https?:\/\/[^\s/@{}]+\/[^\s]*\{reference\}[^\s]*$/,
      'must be a URL with {reference} in its path or after it',
    )
    .optional()
    .describe(
      'Where a person sees an object: https://erp.example.com/orders/{reference}. Shown beside the reference by find, history, show, status and dead-letters',
    ),
  check_path: z.string().default('').describe('The path that `check` reads'),
  limits: z
    .strictObject({
      per_second: z.int().min(1).max(1_000).optional(),
      per_minute: z.int().min(1).max(60_000).optional(),
    })
    .default({})
    .describe('How many requests this process sends to base_url at most, over all flows and intakes with this setting'),
  concurrency: z.int().min(1).max(64).default(4).describe('The largest number of requests at once'),
  timeout_seconds: seconds.default(30).describe('The time limit of one request'),
  settle_seconds: waitSeconds
    .default(30)
    .describe(
      'How long the ERP may still work on a request that was cut off: no answer came, or that of a gateway. Many servers stop a request after 30 s. A request that the ERP has answered does not wait for this',
    ),
  visible_seconds: waitSeconds
    .default(5)
    .describe(
      'How long a written object may be missing from lookup. Most ERPs show it at once; 5 s also cover a copy of the database that lags',
    ),
  documents: z.partialRecord(z.enum(documentKinds), kindSettings).default({}),
  answers: z
    .array(answerRule)
    .default([])
    .describe('What answers mean: the first rule that matches; else the status decides'),
  expect: z
    .enum(['json', 'anything'])
    .default('json')
    .describe('The body of an answer that means done: json for JSON or no body, so that an HTML page does not count'),
  message: optionalText.describe("The path of the ERP's own error message in an answer"),
  read: readSettings.default({}).describe('What an intake reads'),
});

export type Settings = z.output<typeof settingsSchema>;
export type KindSettings = z.output<typeof kindSettings>;
export type RequestSettings = z.output<typeof request>;
/** A step; a request that is not in a list has no more than a request. */
export type StepSettings = RequestSettings & Partial<z.output<typeof step>>;
export type ActionSettings = z.output<typeof requests>;
export type SearchSettings = z.output<typeof search>;
export type Conditions = z.output<typeof conditions>;
export type LookupSettings = z.output<typeof lookup>;
export type ReferenceForm = z.output<typeof referenceForm>;
export type ContentHashForm = z.output<typeof contentHashForm>;
export type AnswerRule = z.output<typeof answerRule>;
export type Action = 'create' | 'amend' | 'cancel';
