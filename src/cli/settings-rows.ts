/** The settings of a connector as rows for people, made from their JSON Schema. */

/** The part of a JSON Schema (draft 2020-12), made by zod, that this reads. */
export interface SettingsSchema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, SettingsSchema>>;
  readonly required?: readonly string[];
  readonly items?: SettingsSchema;
  readonly additionalProperties?: SettingsSchema | boolean;
  readonly oneOf?: readonly SettingsSchema[];
  readonly anyOf?: readonly SettingsSchema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly description?: string;
  readonly writeOnly?: boolean;
}

export interface SettingsRow {
  /** `auth.password`, `columns[].name`, `codes.<name>`. */
  readonly path: string;
  /** What the value must be; `secret` for a secret. */
  readonly type: string;
  readonly required: boolean;
  /** The default, as JSON. */
  readonly default?: string;
  /** The choice to which it belongs: `auth.type: basic`. */
  readonly only?: string;
  readonly description?: string;
}

/** One row for each setting, in the order of the schema; the settings inside of another one follow it. */
export function settingsRows(schema: SettingsSchema, path = '', only?: string): SettingsRow[] {
  const required = new Set(schema.required);
  return Object.entries(schema.properties ?? {}).flatMap(([name, setting]) => {
    const place = path === '' ? name : `${path}.${name}`;
    return rowsOf(setting, place, { required: required.has(name), only });
  });
}

function rowsOf(
  setting: SettingsSchema,
  path: string,
  { required, only }: { required: boolean; only: string | undefined },
): SettingsRow[] {
  const row: SettingsRow = {
    path,
    type: typeOf(setting),
    required,
    ...(setting.default === undefined ? {} : { default: JSON.stringify(setting.default) }),
    ...(only === undefined ? {} : { only }),
    ...(setting.description === undefined ? {} : { description: setting.description }),
  };
  const inside = insideOf(setting, path, only);
  // An object is shown by its own settings, unless the whole object is optional or has a description.
  return inside.length > 0 && required && row.description === undefined ? inside : [row, ...inside];
}

function insideOf(setting: SettingsSchema, path: string, only: string | undefined): SettingsRow[] {
  const choices = choicesOf(setting);
  if (choices.some(({ properties }) => properties))
    return choices.flatMap((choice) => settingsRows(choice, path, choiceText(choice, path) ?? only));
  const { items, additionalProperties: named } = setting;
  return [
    ...settingsRows(setting, path, only),
    ...(items ? settingsRows(items, `${path}[]`, only) : []),
    ...(typeof named === 'object' ? settingsRows(named, `${path}.<name>`, only) : []),
  ];
}

function choicesOf({ oneOf, anyOf }: SettingsSchema): readonly SettingsSchema[] {
  return oneOf ?? anyOf ?? [];
}

/** Names a choice by the member that can have only one value. */
function choiceText({ properties = {} }: SettingsSchema, path: string): string | undefined {
  const [constant] = Object.entries(properties).filter(([, member]) => member.const !== undefined);
  return constant && `${path}.${constant[0]}: ${constText(constant[1].const)}`;
}

function typeOf(setting: SettingsSchema): string {
  if (setting.writeOnly === true) return 'secret';
  if (setting.const !== undefined) return constText(setting.const);
  if (setting.enum) return setting.enum.map(constText).join(' | ');
  const choices = choicesOf(setting);
  if (choices.length > 0) return [...new Set(choices.map(typeOf))].join(' | ');
  if (setting.items) return `list of ${typeOf(setting.items)}`;
  return [setting.type ?? 'any'].flat().map(plainType).join(' | ');
}

function plainType(type: string): string {
  return { string: 'text', integer: 'whole number', boolean: 'true | false' }[type] ?? type;
}

function constText(value: unknown): string {
  // Without quotation marks where that is unambiguous: a blank or a bar could not be told apart in the row.
  return typeof value === 'string' && /^[\w.-]+$/.test(value) ? value : JSON.stringify(value);
}
