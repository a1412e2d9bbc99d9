/**
 * The order of the test files: those that have a process of their own first, then the others, and of both the longest
 * first. A long file that begins last would run alone, with the other cores idle.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** These take more than 15 s on a busy machine, the longest first. The other files follow by their size. */
export const longest = [
  'test/cli/programs.test.ts',
  'test/console/console.test.ts',
  'test/bridge/pull/quirks.test.ts',
  'test/connectors/tryton/conformance.test.ts',
  'test/cli/bridge-commands.test.ts',
  'test/bridge/intake/requisitions.test.ts',
  'test/faults/erased-everywhere.test.ts',
  'test/faults/database-refuses.test.ts',
  'test/connectors/file/conformance-sftp.test.ts',
  'test/faults/failover.test.ts',
  'test/cli/changed-configuration.test.ts',
  'test/faults/redis-away.test.ts',
  'test/faults/kill-database.test.ts',
  'test/bridge/intake/public-dialect.test.ts',
  'test/simulation/seeds-2.test.ts',
  'test/connectors/sap-s4hana/conformance.test.ts',
  'test/upgrade/rolling-update.test.ts',
  'test/faults/stopped-process.test.ts',
  'test/attack/webhook-port.test.ts',
  'test/bridge/pull/public-source.test.ts',
  'test/simulation/seeds-1.test.ts',
  'test/faults/public-story.test.ts',
  'test/bridge/pull/pull-feed.test.ts',
  'test/attack/readable-data.test.ts',
  'test/faults/every-fault.test.ts',
  'test/tryton/story.test.ts',
  'test/faults/kill-demo.test.ts',
  'test/platform/database/embedded-postgres.test.ts',
  'test/cli/restored-backup.test.ts',
  'test/upgrade/upgrade.test.ts',
  'test/connectors/odoo/conformance.test.ts',
  'test/connectors/tryton/purchases.test.ts',
  'test/cli/bridge-restored.test.ts',
  'test/bridge/pull/backfill/run-backfills.test.ts',
  'test/faults/pooler.test.ts',
  'test/cli/secrets-rotate.test.ts',
  'test/connectors/tryton/other-documents.test.ts',
  'test/service/authorisation.test.ts',
  'test/connectors/sap-s4hana/documented.test.ts',
  'test/faults/kill-start.test.ts',
  'test/cli/init.test.ts',
  'test/connectors/file/conformance.test.ts',
  'test/cli/bridge-intakes.test.ts',
  'test/connectors/tryton/requisitions.test.ts',
  'test/faults/hung-database.test.ts',
  'test/cli/data-folder.test.ts',
  'test/service/fuzz/bodies.test.ts',
  'test/bridge/operate/status/stalled.test.ts',
  'test/bridge/push/push-flow.test.ts',
  'test/service/misbehave/clients.test.ts',
  'test/bridge/operate/reconcile/planted.test.ts',
  'test/service/feeds/feed-updates.test.ts',
  'test/service/webhooks/deliver-notifications.test.ts',
  'test/connectors/postgres/conformance.test.ts',
  'test/service/fuzz/query-path-headers.test.ts',
  'test/bridge/pull/wrong-date.test.ts',
  'test/tryton/rebuild.test.ts',
  'test/service/simulator/play-story.test.ts',
  'test/service/fuzz/huge-bodies.test.ts',
  'test/service/jobs/update-sourcing-event.test.ts',
  'test/bridge/pull/advance-watermark.test.ts',
  'test/cli/database-roles.test.ts',
  'test/console/console-actions.test.ts',
  'test/service/desk/lifecycle.test.ts',
  'test/faults/roles.test.ts',
  'test/connectors/file/reading.test.ts',
  'test/console/access/console-access.test.ts',
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const bySize = await super.sort(files);
    const place = ({ moduleId }: TestSpecification) => {
      const found = longest.findIndex((path) => moduleId.endsWith(`/${path}`));
      return found === -1 ? longest.length : found;
    };
    const isShared = ({ project }: TestSpecification) => Number(!project.config.isolate);
    return bySize.sort((a, b) => isShared(a) - isShared(b) || place(a) - place(b));
  }
}
