/** The state of a document and the path of a file's bytes, for both layouts. */
import type { Operation } from 'sourcing-bridge/connector';
import { joinPath } from './folder.ts';
import { beforeEnding, fillTemplate, ownName, placeholderValue } from './names.ts';

/** `withdrawn` after a cancel; otherwise `awarded` for an award and `current` for any other kind. */
export function stateOf({ document, action }: Pick<Operation, 'document' | 'action'>): string {
  if (action === 'cancel') return 'withdrawn';
  return document.kind === 'award' ? 'awarded' : 'current';
}

/** The file's own name with a suffix that makes it unique, in the folder that the template names. */
export function bytesPath({ document, file }: Operation, template: string, now: Date, suffix: string): string {
  const parts = template
    .split('/')
    .map((part) => fillTemplate(part, (name) => placeholderValue(name, document, now)) || '_');
  return joinPath(...parts, beforeEnding(ownName(file?.name ?? ''), suffix));
}
