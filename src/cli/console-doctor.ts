/** The doctor for the console: what `bridge doctor` finds in the installation that runs. */
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import type { SourceClient } from '#client/source-client.ts';
import type { DoctorFinding } from './doctor/finding.ts';
import type { Installation } from './installation.ts';

const examineMs = 60_000;

/** Returns a function that examines it, and changes nothing. */
export function createConsoleDoctor(
  installation: Installation,
  settings: BridgeSettings,
  clientOf: (source: string) => SourceClient,
): () => Promise<readonly DoctorFinding[]> {
  const { clock } = installation;
  const { database } = installation.open;
  return async () => {
    // Loaded when somebody asks, as the examination needs what no program needs otherwise.
    const { examine } = await import('./commands/bridge-doctor.ts');
    const findings: DoctorFinding[] = [];
    const signal = AbortSignal.timeout(examineMs);
    const command = { installation, settings, database, clock, signal, clientOf };
    await examine({ ...command, perform: (_subject, work) => work() }, findings);
    return findings;
  };
}
