/** The test files that replace modules or globals of their process: each runs in a process of its own. */
export const isolated = ['test/service/simulator/play-story.test.ts', 'test/simulation/*.test.ts'];
