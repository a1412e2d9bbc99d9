/** Paths of a field mapping: paths into the document, and in the fields of lines also paths that begin with `line`. */
import { compileValuePath, documentShape, PathError, type Roots, type Shape } from '#connector/document-paths.ts';
import { type DocumentKind, documentSchemas } from '#connector/documents.ts';

/** Returns the text at the end of the path; undefined when the document has no such value. */
export type ReadPath = (document: unknown, line: unknown) => string | undefined;

/** Compiles a path. `line` is only allowed with `inLine`. Throws PathError for a path that documents cannot have. */
export function compileMappingPath(kind: DocumentKind, path: string, inLine: boolean): ReadPath {
  const isOfLine = /^line(?=$|[.[])/.test(path);
  if (isOfLine && !inLine) throw new PathError('line is known only under lines');
  const { root, read } = compileValuePath(rootsOf(kind), path);
  return (document, line) => valueText(read(root === 'line' ? line : document));
}

/** Whether documents of the kind have lines. */
export function hasLines(kind: DocumentKind): boolean {
  return 'lines' in documentSchemas[kind].shape;
}

/** The shapes of document and line, without the `fields` that the mapping itself makes. */
function rootsOf(kind: DocumentKind): Roots {
  const document = documentShape(kind);
  const line = document.properties?.['lines']?.items;
  return { document: withoutFields(document), ...(line ? { line: withoutFields(line) } : {}) };
}

function withoutFields(shape: Shape): Shape {
  const { properties, items } = shape;
  const kept = Object.entries(properties ?? {}).filter(([name]) => name !== 'fields');
  return {
    ...shape,
    ...(properties
      ? { properties: Object.fromEntries(kept.map(([name, inner]) => [name, withoutFields(inner)])) }
      : {}),
    ...(items ? { items: withoutFields(items) } : {}),
  };
}

/** The text of a value at the end of a path. */
export function valueText(value: unknown): string | undefined {
  return value === undefined || typeof value === 'string' ? value : JSON.stringify(value);
}
