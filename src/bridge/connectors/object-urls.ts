/** Where a person sees the objects of the ERPs, as their connectors say it (`urlOf`). */
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { safeParseSettings } from '#platform/input.ts';
import { loadConnector } from './load-connector.ts';
import { createSecretRedactor } from './secret-redactor.ts';

const charactersMax = 2_000;

/** Returns the address of the flow's object with this reference; undefined where there is none. Never rejects. */
export type ObjectUrls = (flow: string, reference: string | null) => Promise<string | undefined>;

/**
 * Loads the connector of a flow when one of its references is asked for the first time; opens no session. A connector
 * that cannot be loaded, or whose settings do not fit, has no addresses: nothing else depends on them.
 */
export function createObjectUrls(flows: readonly FlowSettings[]): ObjectUrls {
  const known = new Map<string, Promise<(reference: string) => string | undefined>>();
  return async (name, reference) => {
    const flow = flows.find((each) => each.name === name);
    if (!flow || reference === null || reference === '') return undefined;
    const loaded = known.get(name) ?? loadUrlOf(flow);
    known.set(name, loaded);
    return (await loaded)(reference);
  };
}

async function loadUrlOf(flow: FlowSettings): Promise<(reference: string) => string | undefined> {
  const none = () => undefined;
  const connector = await loadConnector(flow.connector).catch(() => undefined);
  const urlOf = connector?.urlOf?.bind(connector);
  const settings = connector && safeParseSettings(connector.settings, flow.settings);
  if (!urlOf || settings?.success !== true) return none;
  const secrets = createSecretRedactor(flow.settings);
  secrets.addSecretsOf(settings.data);
  return (reference) => {
    try {
      const url = urlOf(reference, settings.data);
      return url !== undefined && isPlain(url) && secrets.removeSecrets(url) === url ? url : undefined;
    } catch {
      return undefined;
    }
  };
}

/** A connector may come from anyone: the console makes a link of what it says. */
function isPlain(text: unknown): boolean {
  const url = typeof text === 'string' && text.length <= charactersMax ? URL.parse(text) : null;
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
}
