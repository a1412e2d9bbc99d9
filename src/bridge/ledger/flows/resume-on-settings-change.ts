import type { FlowSettings } from '#bridge/settings/settings.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { retryRefused } from './control-flows.ts';

/**
 * Resumes flows that the bridge paused because the ERP refused everything (`auth`, `config`), if the connector or its
 * settings have changed since: an operator has acted then. The settings may hold secrets, so only their MAC is stored.
 * Returns the names of the flows that were resumed.
 */
export async function resumeOnSettingsChange(
  database: Database,
  flows: readonly FlowSettings[],
  secrets: SecretBox,
  now: Timestamp,
): Promise<string[]> {
  const resumed: string[] = [];
  for (const flow of flows) {
    const { settings, context } = macInput(flow);
    const mac = secrets.mac(settings, context).toString('base64url');
    await database.transaction(async (tx) => {
      const [before] = await tx.query<{ mac: string | null; kind: string | null }>(
        'select settings_mac as mac, paused_kind as kind from bridge.flows where name = $1 for update',
        [flow.name],
      );
      if (!before || before.mac === mac) return;
      await tx.query('update bridge.flows set settings_mac = $2 where name = $1', [flow.name, mac]);
      // After a rotation of the master key the same settings have another MAC.
      const isRotated =
        before.mac !== null && secrets.verifiesMac(Buffer.from(before.mac, 'base64url'), settings, context);
      if (isRotated || before.mac === null || (before.kind !== 'auth' && before.kind !== 'config')) return;
      await tx.query(
        'update bridge.flows set paused_kind = null, paused_reason = null, paused_at = null where name = $1',
        [flow.name],
      );
      await retryRefused(tx, flow.name, now);
      resumed.push(flow.name);
    });
  }
  return resumed;
}

function macInput({ name, connector, settings }: FlowSettings): { settings: Buffer; context: string } {
  return {
    settings: Buffer.from(JSON.stringify([connector, settings]), 'utf8'),
    context: `flow.settings:${name}`,
  };
}
