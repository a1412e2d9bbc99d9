/**
 * The order of the test files: those that have a process of their own first, then the others, and of both the longest
 * first. A long file that begins last would run alone, with the other cores idle.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** What runs for more than some seconds, from the longest on; the other files follow by their size. */
const longest = ['test/simulation/seeds-1.test.ts', 'test/simulation/seeds-2.test.ts'];

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
