import { errorText } from '#platform/errors.ts';
import type { Operation } from './connector.ts';
import { TransientError } from './errors.ts';

/**
 * The bytes that go with an operation; undefined for one that has none to write. Throws TransientError where the sourcing
 * service does not give them: nothing was sent to the ERP yet.
 */
export async function fileBytes(
  { document, action, file }: Pick<Operation, 'document' | 'action' | 'file'>,
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  if (document.kind !== 'file' || action === 'cancel') return undefined;
  if (!file) throw new TransientError('the bytes of the file did not come with it');
  return file.read(signal).catch((cause: unknown) => {
    throw new TransientError(errorText(cause), { cause });
  });
}
