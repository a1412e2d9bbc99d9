/**
 * Files: attached to events and requests, linked from questions and answers. Source: API document, "Job"; decisions,
 * "Jobs".
 */
import { z } from 'zod';
import { httpsUrl, sameUnderBothNames, text, timestamp, uuid } from './scalars.ts';

export const filesPerAttachMax = 50;
/** Source: API document, "Limits". */
export const filesPerLinkJobMax = 50;
/** Source: API document, "Limits". */
export const downloadLinkSeconds = 60;

/** Marks that turn the direction of text: with one `annual\u202efdp.exe` is shown as `annualexe.pdf`. */
export const directionMarks = /[\u202a-\u202e\u2066-\u2069]/g;

/** One segment of a path, because the receiver uses it as a name in a folder. */
export const fileName = text(255, 1).refine(
  // oxlint-disable-next-line no-control-regex -- control characters are refused
  (name) => !/[\u0000-\u001f\u007f/\\]/.test(name) && name.search(directionMarks) < 0 && name !== '.' && name !== '..',
  'must be a plain file name, without slashes, control characters and marks that turn the direction of text',
);

/** A media type with its parameters (RFC 9110, section 8.3.1), in characters that a header can contain. */
export const contentType = text(255, 3).regex(
  /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+([\t ]*;[\t ]*[\w!#$%&'*+.^`|~-]+=("[\t !#-~]*"|[\w!#$%&'*+.^`|~-]+))*$/,
  'must be a media type, like application/pdf',
);

/** Standard base64 with its padding, without any other characters. */
const base64 = z
  .string()
  .superRefine((value, context) => {
    const message = base64Fault(value);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  })
  .meta({ contentEncoding: 'base64' });

/** The patterns have no groups: a group that repeats over megabytes would overflow the stack. */
function base64Fault(value: string): string | undefined {
  if (/^[A-Za-z0-9+/]*={0,2}$/.test(value))
    return value.length % 4 === 0 ? undefined : 'must be base64 with its padding: its length must be a multiple of 4';
  if (/\s/.test(value)) return 'must be base64 without spaces and line breaks';
  if (/^[\w-]*={0,2}$/.test(value)) return 'must be standard base64, with + and / instead of the URL-safe - and _';
  return 'must be base64';
}

/** A file whose bytes are in the request, or are fetched from the URL when the job runs. */
export const attachedFile = z
  .strictObject({
    file_name: fileName,
    content_type: contentType
      .optional()
      .describe("Left out: what the URL's server says, else application/octet-stream."),
    content: base64.optional(),
    url: httpsUrl.optional(),
  })
  .superRefine(({ content, url }, context) => {
    if ((content === undefined) === (url === undefined))
      context.addIssue({
        code: 'custom',
        message: content === undefined ? 'must have content or url' : 'must have only one of content and url',
      });
  })
  .meta({ id: 'AttachedFile', description: 'Has either `content` or `url`.' });

export type AttachedFile = z.infer<typeof attachedFile>;

/** How long the bytes of files that a job names can be uploaded. */
export const uploadSeconds = 3_600;

const whoSends = text(255, 1).optional().describe('Without effect: files are attached by the API key.');

const attachMembers = {
  files: z
    .array(z.union([fileName, attachedFile]))
    .min(1)
    .max(filesPerAttachMax)
    .describe(
      'Files with their bytes or URLs; or names alone: then the job is `RUNNING` until the bytes of each were uploaded to ' +
        'its `detail.files[].upload_url`.',
    ),
  created_by: whoSends,
  requester: whoSends,
};

/** The payload that attaches files to an event, as it is sent. */
export const sentFilesForEvent = z
  .strictObject({ sourcing_event: uuid, ...attachMembers })
  .meta({ id: 'AttachFilesToSourcingEvent' });
/** The payload that attaches files to a request, as it is sent. */
export const sentFilesForRequest = z
  .strictObject({ sourcing_request: uuid, ...attachMembers })
  .meta({ id: 'AttachFilesToSourcingRequest' });

interface SentFiles extends Readonly<Record<string, unknown>> {
  readonly files: readonly (string | AttachedFile)[];
}

/** Reads an attach payload: its files are all with their contents, or all names. */
export function asAttachPayload<Sent extends z.ZodType<SentFiles>>(schema: Sent) {
  return schema
    .superRefine((sent, context) => {
      sameUnderBothNames({ requester: 'created_by' })(sent, context);
      const names = new Set<string>();
      for (const [index, file] of sent.files.entries()) {
        if (typeof file !== typeof sent.files[0])
          context.addIssue({
            code: 'custom',
            path: ['files', index],
            message: 'must be of the kind of the first: either all files have contents, or all are names',
          });
        else if (typeof file === 'string' && names.has(file))
          context.addIssue({ code: 'custom', path: ['files', index], message: 'stands twice' });
        if (typeof file === 'string') names.add(file);
      }
    })
    .transform(({ created_by: _by, requester: _requester, ...payload }) => payload);
}

export const generateFileDownloadLinksPayload = z
  .strictObject({
    file_uuids: z.array(uuid).min(1).max(filesPerLinkJobMax),
  })
  .meta({ id: 'GenerateFileDownloadLinks' });

/**
 * Why no file came from a URL (`detail.errors[].error` of an attach job):
 * - `timeout`: the server was too slow, or the time limit of the whole job was reached
 * - `refused`: the server could not be connected to
 * - `tls`: its certificate or TLS settings were not accepted
 * - `reset`: the server closed the connection before the end of the file
 * - `protocol`: the server's answer is not valid HTTP, or the URL cannot be requested
 * - `unreachable`: the name of the server does not resolve, or its address is not public and not in a network that the
 *   operator allows
 * - `redirect`: the server answered with a redirect; redirects are not followed
 * - `too_large`: the file is larger than a request body may be
 * - `no_space`: the organisation has no room for the file
 * - `encoded`: the server sent the file compressed, which was not requested
 * - `http_<status>`: any status but 200
 */
export type FileFetchError =
  | 'timeout'
  | 'refused'
  | 'tls'
  | 'reset'
  | 'protocol'
  | 'unreachable'
  | 'redirect'
  | 'too_large'
  | 'encoded'
  | 'no_space'
  | `http_${number}`;

/** `detail.errors[].error` of a link job: the file does not exist, or belongs to another organisation. */
export const fileNotFound = 'not_found';

/** The header of an upload with the file's name, as percent-encoded UTF-8: `%` and all but visible ASCII as %XX. */
export const fileNameHeader = 'X-File-Name';

/** A file as the desk shows it with an event or a request. */
export const shownFile = z.looseObject({
  uuid,
  file_name: z.string(),
  content_type: z.string(),
  size: z.int(),
  created: timestamp,
});

export type ShownFile = z.infer<typeof shownFile>;

/** What an upload answers. */
export const uploadedFile = z
  .looseObject({
    uuid,
    file_name: z.string(),
    size: z.int(),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .describe('In hexadecimal.'),
  })
  .meta({ id: 'UploadedFile' });
