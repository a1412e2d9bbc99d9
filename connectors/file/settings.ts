/** The settings of a flow to files. Finds all faults that can be found without access to the folder. */
import {
  compileJsonPath,
  namedPlaces,
  namedRequisitionPlaces,
  PathError,
  requisitionPlaces,
  secret,
  supplierPlaces,
  z,
} from 'sourcing-bridge/connector';
import { pathFault } from './columns.ts';

const fingerprint = z
  .string('is missing: without it, another server could pose as this one')
  .regex(/^SHA256:[A-Za-z0-9+/]{43}=?$/, 'must have the form that ssh-keygen -lf shows: SHA256:…');

const sftp = z
  .strictObject({
    host: z.string().min(1),
    port: z.int().min(1).max(65_535).default(22),
    user: z.string().min(1),
    password: secret().optional(),
    private_key_file: z
      .string()
      .min(1)
      .optional()
      .describe('The path of the key; a relative path starts at the data directory'),
    passphrase: secret().optional().describe('The passphrase of the private key'),
    fingerprint: z
      .union([fingerprint.transform((given) => [given]), z.array(fingerprint).min(1)])
      .describe("The fingerprint of the server's key; several while the key is being changed"),
  })
  .superRefine((given, context) => {
    const { password, private_key_file, passphrase } = given;
    const fault = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
    if (!password && private_key_file === undefined) fault('password', 'set a password, or a private_key_file');
    if (passphrase && private_key_file === undefined)
      fault('passphrase', 'belongs to a private_key_file, and none is set');
  });

const column = z
  .strictObject({
    name: z.string().min(1).describe('The name in the header'),
    from: z.string().min(1).optional().describe('The path of its value, for example line.fields.Material'),
    value: z.string().optional().describe('Instead of `from`: a value that is the same in every row'),
    as: z.enum(['text', 'decimal', 'date']).optional().describe('Default: the type in the document'),
    required: z.boolean().default(false).describe('A document without a value for it is refused'),
  })
  .superRefine(({ from, value }, context) => {
    const fault = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
    if ((from === undefined) === (value === undefined)) fault('from', 'set either from or value');
    const reason = from === undefined ? undefined : pathFault(from);
    if (reason !== undefined) fault('from', reason);
  });

const csv = z
  .strictObject({
    delimiter: z.enum([',', ';', '\t']).default(','),
    encoding: z
      .enum(['utf-8', 'utf-8-bom', 'windows-1252'])
      .default('utf-8')
      .describe('A document with a character that the encoding does not have is refused'),
    header: z.boolean().default(true),
    decimal_separator: z.enum(['.', ',']).default('.').describe('In quantities, shares and amounts'),
    dates: z
      .string()
      .regex(/^(?:YYYY|MM|DD|HH|mm|ss|[-./: ,T])+$/, 'may contain YYYY, MM, DD, HH, mm, ss and - . / : , T and spaces')
      .optional()
      .describe('The format of times, in UTC, for example DD.MM.YYYY; default: as in the document'),
    formulas: z
      .enum(['keep', 'quote'])
      .default('quote')
      .describe("quote: a text that a spreadsheet would take for a formula gets a ' before it; keep: for an ERP"),
  })
  .prefault({});

/** A folder's path below `directory`. */
const subFolder = z
  .string()
  .regex(
    /^[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/,
    'letters, digits, dots, hyphens and underscores, with / between folders',
  )
  .refine((path) => !path.split('/').some((part) => /^\.+$/.test(part)), 'must stay below the directory')
  .refine((path) => !/(?:^|\/)-/.test(path), 'the name of a folder must not begin with a hyphen');

const dropSettings = z.strictObject({
  files: z
    .string()
    .regex(/^[^/\\\0]{1,200}$/, 'must be the name of a file; * stands for any characters')
    .describe('Which files are taken: vendors*.csv'),
  folder: subFolder.or(z.literal('')).default('').describe('The subfolder in which they are dropped'),
  format: z
    .enum(['csv', 'jsonl'])
    .default('csv')
    .describe('csv: with a header, as `csv` says; jsonl: an object a line'),
  content: z
    .enum(['delta', 'whole'])
    .default('delta')
    .describe('delta: what has changed, each file counts; whole: all of them, only the newest file counts'),
  marker: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,50}$/)
    .optional()
    .describe('A file is complete when one with this ending exists, too: .ok for vendors.csv.ok'),
  quiet_seconds: z
    .number()
    .min(0)
    .max(86_400)
    .default(60)
    .describe('Without a marker: a file is complete when it has not changed for so long'),
  page: z.int().min(1).max(10_000).default(1_000).describe('The number of lines that are stored at once'),
});

export type DropSettings = z.output<typeof dropSettings>;

/** Adds an issue for each path that is written wrong. */
function checkPaths(
  places: readonly string[],
  context: { addIssue(issue: { code: 'custom'; path: string[]; message: string }): void },
) {
  for (const place of places)
    try {
      compileJsonPath(place);
    } catch (error) {
      if (!(error instanceof PathError)) throw error;
      context.addIssue({ code: 'custom', path: ['record'], message: `${place}: ${error.message}` });
    }
}

const supplierDropSettings = dropSettings
  .extend({ record: supplierPlaces.describe('csv: the names of columns; jsonl: paths') })
  .superRefine(({ format, record }, context) => {
    if (format === 'jsonl') checkPaths(namedPlaces(record), context);
  });

export type SupplierDropSettings = z.output<typeof supplierDropSettings>;

/** The subfolder of the files that say what became of requisitions. */
export const newsFolder = 'requisition-news';

const { items } = requisitionPlaces.shape;

const requisitionDropSettings = dropSettings
  .extend({
    record: requisitionPlaces
      .extend({
        items: items
          .extend({
            at: items.shape.at
              .optional()
              .describe('Where the list of items is; only with jsonl: in a CSV each row is an item'),
          })
          .prefault({}),
      })
      .describe('csv: the names of columns; jsonl: paths'),
    acknowledge: z
      .boolean()
      .default(false)
      .describe('Writes files into the folder requisition-news of `directory` that say what became of requisitions'),
  })
  .superRefine(({ format, record, folder }, context) => {
    const { at, ...parts } = record.items;
    if ((format === 'csv') !== (at === undefined))
      context.addIssue({
        code: 'custom',
        path: ['record', 'items', 'at'],
        message:
          at === undefined ? 'is missing: where the list of items is' : 'only with jsonl: in a CSV each row is an item',
      });
    else if (at !== undefined)
      checkPaths([...namedRequisitionPlaces({ ...record, items: { ...parts, at } }), ...Object.values(parts)], context);
    if (folder === newsFolder)
      context.addIssue({
        code: 'custom',
        path: ['folder'],
        message: 'must be another one: in it are the files that say what became of requisitions',
      });
  });

export type RequisitionDropSettings = z.output<typeof requisitionDropSettings>;

export const settingsSchema = z
  .strictObject({
    directory: z
      .string()
      .min(1)
      .describe(
        'Where the files are written; a relative path starts at the data directory, or with sftp at the login folder',
      ),
    sftp: sftp.optional().describe('The server that the directory is on; default: this machine'),
    layout: z
      .enum(['document', 'batch'])
      .default('document')
      .describe(
        'document: files that stay and are replaced. batch: new files with each write, which the reader may remove',
      ),
    format: z
      .enum(['csv', 'jsonl'])
      .default('csv')
      .describe('The format of batches, and of the files of `acknowledge`'),
    columns: z.array(column).min(1).optional().describe('Default: all columns that the documents have'),
    csv,
    read: z
      .strictObject({ supplier: supplierDropSettings.optional(), requisition: requisitionDropSettings.optional() })
      .default({})
      .describe('What an intake reads'),
  })
  .superRefine((given, context) => {
    const fault = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
    const { layout, columns, format } = given;
    const names = (columns ?? []).map((column) => column.name);
    const repeated = names.find((column, index) => names.indexOf(column) !== index);
    if (repeated !== undefined) fault('columns', `"${repeated}" is there twice`);
    const showsState = columns?.some(({ from }) => from === 'action' || from === 'state') ?? true;
    if (layout === 'batch' && format === 'csv' && !showsState)
      fault('columns', 'need one from action or state: without it a reader does not learn of withdrawals');
    const { supplier, requisition } = given.read;
    if (supplier && supplier.folder === requisition?.folder && supplier.files === requisition.files)
      fault('read', 'suppliers and requisitions need other names of files, or another folder: each file is taken once');
  });

export type FileSettings = z.output<typeof settingsSchema>;
