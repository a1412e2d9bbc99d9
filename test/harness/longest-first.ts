/**
 * The order of the test files: those that have a process of their own first, then the others, and of both the longest
 * first. A long file that begins last would run alone, with the other cores idle.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** These take more than 15 s on an idle machine, the longest first. The other files follow by their size. */
export const longest = [
  'test/connectors/tryton/conformance.test.ts',
  'test/simulation/seeds-1.test.ts',
  'test/simulation/seeds-2.test.ts',
  'test/faults/public-story.test.ts',
  'test/cli/bridge-commands.test.ts',
  'test/service/fuzz/huge-bodies.test.ts',
  'test/tryton/story.test.ts',
  'test/connectors/sap-s4hana/conformance.test.ts',
  'test/faults/kill-service.test.ts',
  'test/faults/kill-demo.test.ts',
  'test/cli/programs.test.ts',
  'test/faults/every-fault.test.ts',
  'test/bridge/webhooks/register-webhook.test.ts',
  'test/service/fuzz/query-path-headers.test.ts',
  'test/faults/stopped-process.test.ts',
  'test/bridge/webhooks/rotate-webhooks.test.ts',
  'test/service/desk/bids-model.test.ts',
  'test/service/desk/lifecycle.test.ts',
  'test/service/ssrf.test.ts',
  'test/faults/kill-database.test.ts',
  'test/cli/bridge-webhooks.test.ts',
  'test/faults/kill-start.test.ts',
  'test/faults/roles.test.ts',
  'test/service/feeds/feed-updates.test.ts',
  'test/faults/kill-bridge.test.ts',
  'test/service/fuzz/bodies.test.ts',
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
