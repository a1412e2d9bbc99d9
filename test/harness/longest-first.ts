/**
 * The order of the test files: those that have a process of their own first, then the others, and of both the longest
 * first. A long file that begins last would run alone, with the other cores idle.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** These take more than 15 s on an idle machine, the longest first. The other files follow by their size. */
export const longest = [
  'test/cli/programs.test.ts',
  'test/platform/database/embedded-postgres.test.ts',
  'test/connectors/tryton/conformance.test.ts',
  'test/bridge/operate/reconcile/planted.test.ts',
  'test/connectors/sap-s4hana/conformance.test.ts',
  'test/console/console.test.ts',
  'test/cli/bridge-commands.test.ts',
  'test/connectors/tryton/requisitions.test.ts',
  'test/bridge/intake/simulation.test.ts',
  'test/service/feeds/feed-updates.test.ts',
  'test/bridge/pull/public-source.test.ts',
  'test/simulation/seeds-1.test.ts',
  'test/simulation/seeds-2.test.ts',
  'test/bridge/intake/public-dialect.test.ts',
  'test/cli/bridge-rebuild.test.ts',
  'test/faults/public-story.test.ts',
  'test/service/authorisation.test.ts',
  'test/service/conformance/every-endpoint.test.ts',
  'test/connectors/file/kill.test.ts',
  'test/connectors/file/batch-layout.test.ts',
  'test/cli/mcp.test.ts',
  'test/cli/connector-commands.test.ts',
  'test/faults/stopped-process.test.ts',
  'test/faults/kill-start.test.ts',
  'test/service/fuzz/query-path-headers.test.ts',
  'test/connectors/tryton/purchases.test.ts',
  'test/console/console-actions.test.ts',
  'test/faults/every-fault.test.ts',
  'test/faults/kill-demo.test.ts',
  'test/cli/database-roles.test.ts',
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
