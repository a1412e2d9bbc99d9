import { expect, test } from 'vitest';
import { chooseSeeds, commitHere } from './choose-seeds.ts';
import { failedSeeds } from './failed-seeds.ts';
import { scenarioOf } from './scenario.ts';

const commit = (first: string) => first.padEnd(40, '0');
const failed = failedSeeds.map(({ seed }) => seed);

test('every run begins with the seeds that failed once, and half of the others are made of the commit', () => {
  const { seeds, told } = chooseSeeds({ SIM_SEEDS: '6' }, commit('0000000ff'));
  // 255 commits of 10,000 seeds each come before it.
  expect(seeds).toEqual([...failed, '1', '2', '3', '3550000', '3550001', '3550002']);
  expect(told).toContain('commit 0000000ff');
  expect(told, 'how to run the new ones again').toContain('SIM_FROM=3550000 SIM_SEEDS=3 npm run test:simulation');
});

test('another commit tries other worlds; the same commit tries the same ones', () => {
  const of = (first: string) => chooseSeeds({}, commit(first)).seeds;
  expect(of('ffffffffe')).toEqual(of('ffffffffe'));
  const fresh = [...of('ffffffffe'), ...of('fffffffff')].map(Number).filter((seed) => seed > 1_000_000);
  expect(new Set(fresh).size).toBe(12);
  expect(fresh.every(Number.isSafeInteger)).toBe(true);
});

test('without git, a run tries a fixed range and says so', () => {
  const { seeds, told } = chooseSeeds({ SIM_SEEDS: '2' }, undefined);
  expect(seeds).toEqual([...failed, '1', '1000000']);
  expect(told).toContain('git names no commit');
});

test('a single seed or a range is run alone, whatever the commit', () => {
  expect(chooseSeeds({ SIM_SEED: 'v1:7' }, commitHere()).seeds).toEqual(['v1:7']);
  expect(chooseSeeds({ SIM_FROM: '3550000', SIM_SEEDS: '2' }, commitHere()).seeds).toEqual(['3550000', '3550001']);
});

test('a seed that the generator cannot draw is refused', () => {
  expect(() => scenarioOf('v9:7')).toThrow('no version 9');
  expect(() => scenarioOf('seven')).toThrow('a number');
});
