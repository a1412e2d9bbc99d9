/** Opens the connectors of the configured intakes, and what is made of their settings. */
import { resolve } from 'node:path';
import { openConnector } from '#bridge/connectors/open-flows.ts';
import type { BridgeDeps } from '#bridge/settings/bridge-deps.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import type { Connector } from '#connector/connector.ts';
import { AppError } from '#platform/errors.ts';
import { createErpReader, type ErpReader } from './read-erp.ts';
import { createWishOf, type WishOf } from './requisitions/requisition-need.ts';
import { createErpTeller, type ErpTeller } from './tell-erp.ts';
import { createWanted } from './wanted-supplier.ts';

export interface OpenIntake {
  readonly intake: IntakeSettings;
  readonly reader: ErpReader;
  readonly teller: ErpTeller | undefined;
  readonly wantedOf: ReturnType<typeof createWanted>;
  readonly wishOf: WishOf;
  /** What the connector's own check says. Never rejects. */
  check(): ReturnType<Awaited<ReturnType<typeof openConnector>>['session']['check']>;
}

/** A page of an ERP may take longer than a write: it reads up to some thousand rows. */
const pageMsLeast = 120_000;

/**
 * Loads and opens the connectors of all intakes; `opened` closes them. Throws AppError `invalid` for settings that
 * cannot work, and for a connector that does not read the stream.
 */
export async function openIntakes(
  deps: Pick<BridgeDeps, 'settings' | 'dataDir' | 'log' | 'clock'>,
  opened: AsyncDisposableStack,
): Promise<OpenIntake[]> {
  const { settings, dataDir, log, clock } = deps;
  const found: OpenIntake[] = [];
  for (const [index, intake] of settings.intakes.entries()) {
    const place = { what: 'intake', name: intake.name, path: ['bridge', 'intakes', index] } as const;
    const { connector, session, secrets } = await openConnector(
      { ...place, connector: intake.connector, settings: intake.settings },
      { dataDir: resolve(dataDir), log, clock },
      opened,
      (loaded) => checkReads(intake, loaded, ''),
    );
    checkReads(intake, connector, ` with these settings: say in settings.read.${intake.stream} what is read`);
    const pageMs = Math.max(pageMsLeast, connector.capabilities.timeoutMs);
    found.push({
      intake,
      reader: createErpReader(session, intake.stream, {
        pageMs,
        redact: secrets.redact,
        listsOpen: connector.capabilities.listsOpen === true,
      }),
      teller: intake.stream === 'requisition' ? createErpTeller(session, connector, secrets) : undefined,
      wantedOf: createWanted(intake),
      wishOf: createWishOf(
        intake,
        settings.sources.find(({ name }) => name === intake.source),
      ),
      check: () => session.check(),
    });
  }
  return found;
}

/** What is read may depend on the settings, too. */
function checkReads({ name, connector, stream }: IntakeSettings, { capabilities }: Connector, how: string): void {
  if (capabilities.reads?.includes(stream) !== true)
    throw new AppError('invalid', `Intake "${name}": "${connector}" reads no ${stream} records${how}.`);
}
