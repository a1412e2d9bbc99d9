/** Writes the configured intakes into SQL at the start of a process that works them. */
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { intakeFingerprint } from './intake-store.ts';

/**
 * Registers the intakes. One that is not configured any more is not worked, and keeps its rows. Settings that decide what
 * is sent and have changed make everything be read and compared again. Returns the intakes whose pause ended, because the
 * connector's settings have changed.
 */
export async function registerIntakes(
  database: Database,
  intakes: readonly IntakeSettings[],
  secrets: SecretBox,
  now: Timestamp,
): Promise<string[]> {
  return database.transaction(async (tx) => {
    const resumed: string[] = [];
    await tx.query('update bridge.intakes set configured = false where configured and name <> all($1)', [
      intakes.map(({ name }) => name),
    ]);
    for (const intake of intakes) {
      const { name, source, stream, connector } = intake;
      const fingerprint = intakeFingerprint(intake);
      const settings = Buffer.from(JSON.stringify([connector, intake.settings]), 'utf8');
      const context = `intake.settings:${name}`;
      const mac = secrets.mac(settings, context).toString('base64url');
      const [before] = await tx.query<{ source: string; fingerprint: string; mac: string | null; kind: string | null }>(
        `select source, fingerprint, settings_mac as mac, paused_kind as kind from bridge.intakes
         where name = $1 for update`,
        [name],
      );
      // What was agreed on with one service says nothing of another.
      if (before && before.source !== source) await tx.query('delete from bridge.intakes where name = $1', [name]);
      await tx.query(
        `insert into bridge.intakes (name, source, stream, connector, fingerprint, settings_mac, next_read)
         values ($1, $2, $3, $4, $5, $6, $7)
         on conflict (name) do update set configured = true, connector = $4, settings_mac = $6`,
        [name, source, stream, connector, fingerprint, mac, now],
      );
      if (before && before.source === source && before.fingerprint !== fingerprint) {
        await tx.query(
          'update bridge.intakes set fingerprint = $2, checkpoint = null, full_began = null, next_read = $3 where name = $1',
          [name, fingerprint, now],
        );
        await tx.query(
          `update bridge.intake_records
           set due = $2, waiting_since = coalesce(waiting_since, $2), action = null, dead_since = null, taken = 0
           where intake = $1`,
          [name, now],
        );
      }
      const isOther =
        before?.mac != null && !secrets.verifiesMac(Buffer.from(before.mac, 'base64url'), settings, context);
      if (isOther && (before.kind === 'auth' || before.kind === 'config')) {
        await tx.query(
          `update bridge.intakes
           set paused_kind = null, paused_reason = null, paused_at = null, next_read = $2, next_send = null
           where name = $1`,
          [name, now],
        );
        resumed.push(name);
      }
    }
    return resumed;
  });
}
