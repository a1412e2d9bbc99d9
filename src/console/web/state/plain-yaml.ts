/** Writes settings as a person would write them in YAML. The package `yaml` is five times as large as this page. */

/** Returns YAML of plain data; texts are in quotation marks, which YAML reads as JSON does. */
export function stringify(value: unknown, indent = ''): string {
  if (Array.isArray(value))
    return value.length === 0 ? '[]' : value.map((item) => `${indent}- ${itemText(item, `${indent}  `)}`).join('\n');
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  if (members.length === 0) return '{}';
  return members
    .map(([name, member]) => {
      const key = /^[A-Za-z_][\w-]*$/.test(name) ? name : JSON.stringify(name);
      return isNested(member)
        ? `${indent}${key}:\n${stringify(member, `${indent}  `)}`
        : `${indent}${key}: ${stringify(member)}`;
    })
    .join('\n');
}

function itemText(item: unknown, indent: string): string {
  return isNested(item) ? stringify(item, indent).trimStart() : stringify(item);
}

function isNested(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0;
}
