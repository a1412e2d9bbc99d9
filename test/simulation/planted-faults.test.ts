import { expect, test } from 'vitest';
import { plantedFaults, plantFault, withFault } from './planted-faults.ts';

test.each(plantedFaults)('the fault fits its module, so it can be planted: $name', (fault) => {
  const text = withFault(fault);
  expect(text).toContain(fault.to);
  expect(text).not.toContain(fault.from);
});

test('a module that has changed and a name that does not exist are reported, not skipped', () => {
  const [fault] = plantedFaults;
  expect(fault && (() => withFault(fault, 'another text'))).toThrow('stands there 0 times');
  expect(() => plantFault('none of them')).toThrow('no fault to plant');
});
