/**
 * The order of the test files: first the files that each have their own process, then the others, and in both groups
 * the longest first. A long file that begins last would run alone while the other cores are idle.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that run for more than some seconds, the longest first; the other files follow by their size. */
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
