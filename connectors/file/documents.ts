/** What both layouts say of a document, and where the bytes of a file go. */
import type { Operation } from 'sourcing-bridge/connector';
import { joined } from './folder.ts';
import { beforeEnding, fillTemplate, ownName, placeholderValue } from './names.ts';

/** `withdrawn`, or what a document of its kind is otherwise. */
export function stateOf({ document, action }: Pick<Operation, 'document' | 'action'>): string {
  if (action === 'cancel') return 'withdrawn';
  return document.kind === 'award' ? 'awarded' : 'current';
}

/** The file's own name, with a mark that tells it from others of its name, in the folder that the template gives. */
export function bytesPath({ document, file }: Operation, template: string, now: Date, mark: string): string {
  const parts = template
    .split('/')
    .map((part) => fillTemplate(part, (name) => placeholderValue(name, document, now)) || '_');
  return joined(...parts, beforeEnding(ownName(file?.name ?? ''), mark));
}
