/** Settings: wrong ones are refused by name, and secrets are marked. */
import { z } from 'zod';
import type { Check } from '#connector/testing/check.ts';
import { failCheck, NotApplicable } from '#connector/testing/finding.ts';
import type { Stage } from '#connector/testing/stage.ts';
import { soundsSecret } from '#platform/secret-names.ts';

export const settings: Check = {
  name: 'settings',
  guarantee: 'the settings of the example are accepted; a missing, wrong or unknown setting is refused by its name',
  async run(stage) {
    const given = givenSettings(stage);
    const { settings: schema } = stage.connector;
    const parsed = schema.safeParse(given);
    if (!parsed.success)
      failCheck({
        expected: 'target.settings() returns settings that the connector accepts',
        seen: namedBy(parsed.error),
        lookAt: 'settings() of the conformance test',
      });
    for (const name of Object.keys(given)) {
      expectNamed(stage, without(given, name), name, 'is missing', true);
      // No real setting has this type.
      expectNamed(stage, { ...given, [name]: [[[null]]] }, name, 'is a list of lists', false);
    }
    expectNamed(stage, { ...given, conformance_unknown: 1 }, 'conformance_unknown', 'is unknown', false);
    for (const { path, schema } of objectsIn(schemaOf(stage)))
      if (schema.properties && schema.additionalProperties !== false)
        failCheck({
          expected: `unknown settings are refused ${path === '' ? '' : `in ${path} `}as well, so that typing errors are noticed`,
          seen: 'an object schema that accepts any member',
          lookAt: 'the settings schema: z.strictObject instead of z.object',
        });
  },
};

export const secretSettings: Check = {
  name: 'secret settings',
  guarantee: 'every setting with the name of a secret is marked as one',
  async run(stage) {
    for (const { path, schema } of objectsIn(schemaOf(stage)))
      for (const [name, member] of Object.entries(schema.properties ?? {}))
        if (soundsSecret(name) && hasPlainText(member))
          failCheck({
            expected: `the setting ${path === '' ? name : `${path}.${name}`} is marked as a secret`,
            seen: 'a plain text, which logs and errors would show',
            lookAt: 'the settings schema: secret() instead of z.string()',
          });
  },
};

interface Schema {
  readonly type?: unknown;
  readonly format?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: unknown;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
}

function givenSettings({ target, deadAddress }: Stage): Record<string, unknown> {
  const given = target.settings(deadAddress);
  if (typeof given !== 'object' || given === null) throw new NotApplicable('the connector has no settings');
  return { ...given };
}

function schemaOf({ connector }: Stage): unknown {
  return z.toJSONSchema(connector.settings, { io: 'input', unrepresentable: 'any' });
}

/** All object schemas within a schema, with their paths. */
function objectsIn(node: unknown, path = ''): { path: string; schema: Schema }[] {
  if (typeof node !== 'object' || node === null) return [];
  if (Array.isArray(node)) return node.flatMap((entry) => objectsIn(entry, path));
  const { properties = {}, ...rest } = node as Record<string, unknown>;
  const own = rest['type'] === 'object' ? [{ path, schema: node as Schema }] : [];
  const members = Object.entries(properties as object).flatMap(([name, member]) =>
    objectsIn(member, path === '' ? name : `${path}.${name}`),
  );
  return [...own, ...members, ...Object.values(rest).flatMap((value) => objectsIn(value, path))];
}

/** Whether the schema, one of its alternatives or its items may be an unmarked text. */
function hasPlainText(schema: Schema): boolean {
  const { type, format, anyOf = [], oneOf = [], items } = schema;
  if ([...anyOf, ...oneOf, ...(items ? [items] : [])].some(hasPlainText)) return true;
  // A choice of fixed words is not a secret, nor is a URL.
  const isKnown = schema.enum !== undefined || schema.const !== undefined;
  return type === 'string' && !isKnown && format !== 'uri' && format !== 'password';
}

function expectNamed(stage: Stage, settings: unknown, name: string, what: string, mayPass: boolean): void {
  const parsed = stage.connector.settings.safeParse(settings);
  if (parsed.success && mayPass) return;
  if (parsed.success || !namedBy(parsed.error).includes(name))
    failCheck({
      expected: `settings in which "${name}" ${what} are refused with an error that names it`,
      seen: parsed.success ? 'they are accepted' : namedBy(parsed.error),
      lookAt: 'the settings schema; a refinement names the place with `path`',
    });
}

/** The message that the operator is shown. */
function namedBy(error: z.ZodError): string {
  return z.prettifyError(error);
}

function without(settings: Record<string, unknown>, name: string): Record<string, unknown> {
  return Object.fromEntries(Object.entries(settings).filter(([key]) => key !== name));
}
