import { errorText } from '#platform/errors.ts';
import type { Operation } from './connector.ts';
import { TransientError } from './errors.ts';

/**
 * The bytes of an operation's file; undefined for an operation without a file to write. Throws TransientError when the
 * sourcing service does not deliver the bytes: nothing was sent to the ERP yet.
 */
export async function fileBytes(
  { document, action, file }: Pick<Operation, 'document' | 'action' | 'file'>,
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  if (document.kind !== 'file' || action === 'cancel') return undefined;
  if (!file) throw new TransientError('the operation came without the bytes of its file');
  return file.read(signal).catch((cause: unknown) => {
    throw new TransientError(errorText(cause), { cause });
  });
}
