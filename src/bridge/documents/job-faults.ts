/** Reads what a service says of a job that failed, or of files that it left out. */
import { z } from 'zod';

/** A fault that the service names, with the place in the body or the name of the file. */
export interface JobFault {
  readonly path?: string | undefined;
  readonly message: string;
}

const faultsMax = 100;
const unknownFormMax = 500;

const faultForm = z.union([
  z
    .looseObject({ path: z.string().nullish(), message: z.string() })
    .transform(({ path, message }): JobFault => faultOf(path, message)),
  z
    .looseObject({ file_name: z.string().nullish(), error: z.string() })
    .transform(({ file_name: path, error }): JobFault => faultOf(path, error)),
  z.string().transform((message): JobFault => ({ message })),
]);

/** No document states the form of a job's errors: what has no known form is shown as it is. */
export function faultsOf(errors: unknown): JobFault[] {
  if (errors === undefined || errors === null) return [];
  return (Array.isArray(errors) ? (errors as unknown[]) : [errors]).slice(0, faultsMax).map((error): JobFault => {
    const read = faultForm.safeParse(error);
    if (read.success) return read.data;
    return { message: (JSON.stringify(error) ?? '').slice(0, unknownFormMax).toWellFormed() };
  });
}

function faultOf(path: string | null | undefined, message: string): JobFault {
  return path === null || path === undefined ? { message } : { path, message };
}
