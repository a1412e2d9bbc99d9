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
  return database.transaction(async (tx) => {
    const rows = await tx.query<{ name: string; mac: string | null; kind: string | null }>(
      `select name, settings_mac as mac, paused_kind as kind from bridge.flows
       where name = any($1) order by name for update`,
      [flows.map(({ name }) => name)],
    );
    const before = new Map(rows.map((row) => [row.name, row]));
    const changed = flows.flatMap((flow) => {
      const known = before.get(flow.name);
      const input = macInput(flow);
      const mac = secrets.mac(input.settings, input.context).toString('base64url');
      return known === undefined || known.mac === mac ? [] : [{ name: flow.name, known, input, mac }];
    });
    await tx.query(
      `update bridge.flows f set settings_mac = changed.mac
       from unnest($1::text[], $2::text[]) as changed (name, mac) where f.name = changed.name`,
      [changed.map(({ name }) => name), changed.map(({ mac }) => mac)],
    );
    const resumed = changed.flatMap(({ name, known, input }) => {
      if (known.mac === null || (known.kind !== 'auth' && known.kind !== 'config')) return [];
      // After a rotation of the master key the same settings have another MAC.
      return secrets.verifiesMac(Buffer.from(known.mac, 'base64url'), input.settings, input.context) ? [] : [name];
    });
    await tx.query(
      'update bridge.flows set paused_kind = null, paused_reason = null, paused_at = null where name = any($1)',
      [resumed],
    );
    for (const name of resumed) await retryRefused(tx, name, now);
    return resumed;
  });
}

function macInput({ name, connector, settings }: FlowSettings): { settings: Buffer; context: string } {
  return {
    settings: Buffer.from(JSON.stringify([connector, settings]), 'utf8'),
    context: `flow.settings:${name}`,
  };
}
