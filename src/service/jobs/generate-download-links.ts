import { downloadLinkSeconds, fileNotFound } from '#contract/file.ts';
import { msFromTimestamp } from '#contract/timestamp.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { createLinkToken } from '../files/link-token.ts';
import { downloadLink } from '../files/serve-downloads.ts';
import type { JobWork } from './job-work.ts';

/**
 * GENERATE_FILE_DOWNLOAD_LINKS: creates links that are valid for 60 seconds after the job has completed. A file that is
 * named twice gets one link. Source: API document, "Job" and "Limits".
 */
export function generateDownloadLinks({ secrets }: { secrets: SecretBox }): JobWork<'GENERATE_FILE_DOWNLOAD_LINKS'> {
  return {
    apply: async ({ tx }, { payload, job, now }) => {
      const ids = [...new Set(payload.file_uuids)];
      const files = await tx.query<{ id: string; file_name: string }>(
        `select id, file_name from service.files
         where organisation_id = $1 and id = any($2::uuid[]) and state = 'file'`,
        [job.organisationId, ids],
      );
      const names = new Map(files.map((file) => [file.id, file.file_name]));
      const expiresMs = msFromTimestamp(now) + downloadLinkSeconds * 1000;
      const linkTo = (id: string) =>
        `${job.baseUrl}/downloads/${createLinkToken(secrets, downloadLink, id, expiresMs)}`;
      return {
        detail: {
          data: ids.flatMap((id) => {
            const name = names.get(id);
            return name === undefined ? [] : [{ file_uuid: id, file_name: name, download_url: linkTo(id) }];
          }),
          errors: ids.filter((id) => !names.has(id)).map((id) => ({ file_uuid: id, error: fileNotFound })),
        },
      };
    },
  };
}
