/** The settings of a flow to files. Everything that can be found wrong without looking anywhere is found here. */
import { secret, z } from 'sourcing-bridge/connector';
import { pathFault } from './columns.ts';
import { batchPlaceholders, documentPlaceholders, templateFault } from './names.ts';

const sftp = z
  .strictObject({
    host: z.string().min(1),
    port: z.int().min(1).max(65_535).default(22),
    user: z.string().min(1),
    password: secret().optional(),
    private_key_file: z.string().min(1).optional().describe('Its path; a relative one starts at the data directory'),
    passphrase: secret().optional().describe('Of the private key'),
    fingerprint: z
      .union([z.string(), z.array(z.string()).min(1)])
      .transform((given) => (typeof given === 'string' ? [given] : given))
      .pipe(z.array(z.string().regex(/^SHA256:[A-Za-z0-9+/]{43}=?$/, 'must be as ssh-keygen -lf shows it: SHA256:…')))
      .optional()
      .describe("The fingerprint of the server's key; several while it changes"),
    known_hosts_file: z.string().min(1).optional().describe('A file as ~/.ssh/known_hosts, instead of fingerprint'),
  })
  .superRefine((given, context) => {
    const { password, private_key_file, passphrase, fingerprint, known_hosts_file } = given;
    const fault = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
    if (!password && private_key_file === undefined) fault('password', 'give a password, or a private_key_file');
    if (passphrase && private_key_file === undefined)
      fault('passphrase', 'is of a private_key_file, and there is none');
    if ((fingerprint === undefined) === (known_hosts_file === undefined))
      fault('fingerprint', 'give fingerprint or known_hosts_file: without one anybody could pose as the server');
  });

const column = z
  .strictObject({
    name: z.string().min(1).describe('What the header calls it'),
    from: z.string().min(1).optional().describe('Where its value stands, as line.fields.Material'),
    value: z.string().optional().describe('Instead of `from`: the same in every row'),
    as: z.enum(['text', 'decimal', 'date']).optional().describe('Left out: what the document says that it is'),
    required: z.boolean().default(false).describe('A document that has no value for it is refused'),
  })
  .superRefine(({ from, value }, context) => {
    const fault = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
    if ((from === undefined) === (value === undefined)) fault('from', 'give either from or value');
    const wrong = from === undefined ? undefined : pathFault(from);
    if (wrong !== undefined) fault('from', wrong);
  });

const csv = z
  .strictObject({
    delimiter: z.enum([',', ';', '\t']).default(','),
    encoding: z
      .enum(['utf-8', 'utf-8-bom', 'windows-1252', 'iso-8859-1'])
      .default('utf-8')
      .describe('A document with a character that the encoding lacks is refused'),
    line_ends: z.enum(['crlf', 'lf']).default('crlf'),
    quotes: z.enum(['needed', 'always']).default('needed'),
    header: z.boolean().default(true),
    decimal_separator: z.enum(['.', ',']).default('.').describe('Of quantities, shares and amounts'),
    dates: z
      .string()
      .regex(/^(?:YYYY|MM|DD|HH|mm|ss|[-./: ,T])+$/, 'may have YYYY, MM, DD, HH, mm, ss and - . / : , T and spaces')
      .optional()
      .describe('How times are written, in UTC, as DD.MM.YYYY; left out: as the document has them'),
    formulas: z
      .enum(['keep', 'quote'])
      .default('keep')
      .describe("quote: a text that a spreadsheet takes for a formula gets a ' before it"),
  })
  .prefault({});

/** A folder's path below `directory`. */
const subFolder = z
  .string()
  .regex(
    /^[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/,
    'letters, digits, dots, hyphens and underscores, with / between folders',
  )
  .refine((path) => !path.split('/').some((part) => /^\.+$/.test(part)), 'must stay below the directory');

export const settingsSchema = z
  .strictObject({
    directory: z
      .string()
      .min(1)
      .describe(
        'Where the files are written; a relative path starts at the data directory, or with sftp at the login folder',
      ),
    sftp: sftp.optional().describe('The server that the directory is on; left out: this machine'),
    layout: z
      .enum(['document', 'batch'])
      .default('document')
      .describe(
        'document: files that stay and are replaced. batch: new files with each write, which the reader may remove',
      ),
    format: z.enum(['csv', 'jsonl']).default('csv').describe('Of batch files'),
    name: z
      .string()
      .optional()
      .describe('How files are named, as {kind}_{event.reference_id}_{key} or {kind}_{time}_{sequence}'),
    file_folder: z
      .string()
      .optional()
      .describe(
        'Where the bytes of files go, under their own names, as attachments/{event.id}; left out: file_<id>.bin',
      ),
    manifest: z
      .enum(['json', 'ok', 'done', 'none'])
      .default('json')
      .describe('What a batch ends with: <name>.manifest.json, or <name>.ok or .done with checksums'),
    journal: subFolder
      .default('.sourcing-bridge')
      .describe('The folder in which the connector keeps what it has written'),
    batch_size: z.int().min(1).max(1_000).default(200).describe('Most documents in one batch'),
    columns: z.array(column).min(1).optional().describe('Left out: all that the documents have'),
    bid_sheet: z
      .enum(['columns', 'table'])
      .default('columns')
      .describe('table: a file of its own with a row for each value; columns: in each line as "sheet: <name>"'),
    csv,
  })
  .superRefine((given, context) => {
    const fault = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
    const { layout, name, file_folder, columns, format } = given;
    if (name !== undefined) {
      const wrong = templateFault(name, {
        placeholders: layout === 'batch' ? batchPlaceholders : documentPlaceholders,
        needs: layout === 'batch' ? 'sequence' : 'key',
      });
      if (wrong !== undefined) fault('name', `with layout: ${layout}, ${wrong}`);
    }
    if (file_folder !== undefined) {
      for (const part of file_folder.split('/')) {
        const wrong = templateFault(part, { placeholders: documentPlaceholders });
        if (wrong !== undefined) fault('file_folder', wrong);
      }
    }
    const names = (columns ?? []).map((one) => one.name);
    const twice = names.find((one, index) => names.indexOf(one) !== index);
    if (twice !== undefined) fault('columns', `"${twice}" stands there twice`);
    if (
      columns &&
      layout === 'batch' &&
      format === 'csv' &&
      !columns.some(({ from }) => from === 'action' || from === 'state')
    )
      fault('columns', 'need one from action or state: without it a reader does not learn what was withdrawn');
    const decimalsClash = given.csv.decimal_separator === given.csv.delimiter && given.csv.quotes === 'needed';
    if (decimalsClash && given.csv.decimal_separator === ',' && given.format === 'csv' && layout === 'batch')
      fault('csv', 'a decimal comma and a comma between cells: choose another delimiter, or quotes: always');
  });

export type FileSettings = z.output<typeof settingsSchema>;
