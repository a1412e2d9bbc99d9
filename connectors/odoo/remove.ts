/** Deletes records in Odoo: one call for the records of all tasks, all or none of them. */
import { type DocumentKind, z } from 'sourcing-bridge/connector';
import { asConnectorError, type Odoo } from './odoo.ts';
import type { Task } from './task.ts';

/** `gone`: each task with the ids of its records. Where Odoo refuses, all of these tasks fail with its words. */
export async function removeRecords(
  odoo: Odoo,
  model: string,
  gone: readonly { readonly task: Pick<Task<DocumentKind>, 'error'>; readonly ids: readonly number[] }[],
  signal: AbortSignal,
): Promise<void> {
  const ids = gone.flatMap((removal) => removal.ids);
  if (ids.length === 0) return;
  try {
    signal.throwIfAborted();
    await odoo.change(model, 'unlink', { ids }, z.literal(true), signal);
  } catch (error) {
    for (const { task } of gone) task.error = asConnectorError(error);
  }
}
