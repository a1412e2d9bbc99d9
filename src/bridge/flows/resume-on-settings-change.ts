import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { SecretBox } from '#platform/secrets.ts';
import type { FlowSettings } from '../settings.ts';
import { retryRefused } from './control-flows.ts';

/**
 * Ends pauses that the ERP's refusals have caused where the connector's settings are not those of then: whoever changed
 * them has acted. Of the settings, which may hold secrets, only a MAC is kept. Gives the names of flows that go on.
 */
export async function resumeOnSettingsChange(
  database: Database,
  flows: readonly FlowSettings[],
  secrets: SecretBox,
  now: Timestamp,
): Promise<string[]> {
  const resumed: string[] = [];
  for (const flow of flows) {
    const settings = Buffer.from(JSON.stringify([flow.connector, flow.settings]), 'utf8');
    const mark = secrets.mac(settings, `flow.settings:${flow.name}`).toString('base64url');
    await database.transaction(async (tx) => {
      const [before] = await tx.query<{ mark: string | null; kind: string | null }>(
        'select settings_mac as mark, paused_kind as kind from bridge.flows where name = $1 for update',
        [flow.name],
      );
      if (!before || before.mark === mark) return;
      await tx.query('update bridge.flows set settings_mac = $2 where name = $1', [flow.name, mark]);
      if (before.mark === null || (before.kind !== 'auth' && before.kind !== 'config')) return;
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
