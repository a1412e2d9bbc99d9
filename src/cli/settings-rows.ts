/** The settings of a connector for a person: one row for each, out of their JSON Schema. */

/** What is read of a JSON Schema (draft 2020-12) that zod has made. */
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
  /** What it must be; `secret` for one. */
  readonly type: string;
  readonly required: boolean;
  /** What it is when it is left out, as JSON. */
  readonly default?: string;
  /** Which choice of several it belongs to: `auth.type: basic`. */
  readonly only?: string;
  readonly description?: string;
}

/** In the order of the schema; what stands inside of another comes after it. */
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
  // An object is seen by what stands in it, unless all of it may be left out.
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

/** By the member that has one value only. */
function choiceText({ properties = {} }: SettingsSchema, path: string): string | undefined {
  const [told] = Object.entries(properties).filter(([, one]) => one.const !== undefined);
  return told && `${path}.${told[0]}: ${constText(told[1].const)}`;
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
  // As it stands where that can be read: a blank or a bar would be lost in the row.
  return typeof value === 'string' && /^[\w.-]+$/.test(value) ? value : JSON.stringify(value);
}
