/** The example configurations of the repository are valid, also the settings of each connector. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadConnector } from '#bridge/connectors/load-connector.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { readConfiguration } from '#cli/configuration.ts';
import { errorText } from '#platform/errors.ts';

const root = join(import.meta.dirname, '..', '..');
const connectors = readdirSync(join(root, 'connectors')).sort();
const examples = readdirSync(join(root, 'config/examples')).map((name) => join(root, 'config/examples', name));

/** Values for the variables that a text names; for a URL the value in the comment after it. */
function environmentOf(text: string): Record<string, string> {
  const names = [...text.matchAll(/\$\{(\w+)\}(?: +# (\w+:\/\/\S+))?/g)];
  return Object.fromEntries(
    names.map(([, name = '', url = 'https://erp.example.com']) => [name, name.includes('URL') ? url : `the ${name}`]),
  );
}

function flowsIn(file: string): FlowSettings[] {
  return readConfiguration(file, {}, environmentOf(readFileSync(file, 'utf8'))).bridge.flows;
}

/** The faults that the connector finds in the flow; empty when it accepts the flow. */
async function faultsOf({ connector, documents, settings }: FlowSettings): Promise<string[]> {
  const { capabilities, settings: schema } = await loadConnector(connector);
  const missing = documents.filter((kind) => !capabilities.kinds.includes(kind));
  const { error } = schema.safeParse(settings);
  return [...missing.map((kind) => `takes no ${kind}`), ...(error ? [errorText(error)] : [])];
}

describe('settings.example.yaml', () => {
  test.each(connectors)(
    'of %s is a configuration of flows with that connector, which accepts them unchanged',
    async (name) => {
      const flows = flowsIn(join(root, 'connectors', name, 'settings.example.yaml'));
      expect(flows.length).toBeGreaterThan(0);
      expect([...new Set(flows.map(({ connector }) => connector))]).toEqual([name]);
      expect((await Promise.all(flows.map(faultsOf))).flat()).toEqual([]);
    },
  );
});

describe('config/examples', () => {
  test('have a flow for each connector of the program except the template', () => {
    const used = new Set(examples.flatMap(flowsIn).map(({ connector }) => connector));
    expect([...used]).toEqual(expect.arrayContaining(['file', 'http', 'postgres', 'tryton']));
  });

  test.each(examples)('%s: the connector accepts each flow', async (file) => {
    expect((await Promise.all(flowsIn(file).map(faultsOf))).flat()).toEqual([]);
  });
});
