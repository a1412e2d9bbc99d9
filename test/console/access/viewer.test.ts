import { describe, expect, test } from 'vitest';
import { isLoopback, isLoopbackHost } from '#console/access/loopback.ts';
import { maySeeFlow, maySeePrices, operatorOf, type Viewer, viewerOf } from '#console/access/viewer.ts';

const viewer: Viewer = { name: 'anna', role: 'viewer', flows: ['inbox'] };

describe('the viewer of a request', () => {
  test('is missing where the access check did not run, and that is a refusal', () => {
    expect(() => viewerOf({ locals: {} as never })).toThrow(expect.objectContaining({ code: 'unauthorized' }));
  });

  test.each(['viewer', 'viewer-without-prices'] as const)('may change nothing as %s', (role) => {
    expect(() => operatorOf({ locals: { requestId: 'r', viewer: { ...viewer, role } } })).toThrow(
      expect.objectContaining({ code: 'forbidden' }),
    );
  });

  test('may change things as operator', () => {
    const operator: Viewer = { ...viewer, role: 'operator' };
    expect(operatorOf({ locals: { requestId: 'r', viewer: operator } })).toBe(operator);
  });

  test('sees the flows of its list only, and prices unless its role says otherwise', () => {
    expect([maySeeFlow(viewer, 'inbox'), maySeeFlow(viewer, 'other')]).toEqual([true, false]);
    expect(maySeeFlow({ flows: 'all' }, 'other')).toBe(true);
    expect([maySeePrices(viewer), maySeePrices({ role: 'viewer-without-prices' })]).toEqual([true, false]);
  });
});

describe('this machine itself', () => {
  test.each([
    ['127.0.0.1', true],
    ['127.9.9.9', true],
    ['::1', true],
    ['::ffff:127.0.0.1', true],
    ['localhost', true],
    ['0.0.0.0', false],
    ['::', false],
    ['', false],
    ['10.0.0.1', false],
    ['127.0.0.1.example.com', false],
  ])('has the address %s: %s', (address, expected) => expect(isLoopback(address)).toBe(expected));

  test.each([
    ['localhost:8081', true],
    ['127.0.0.1:8081', true],
    ['[::1]:8081', true],
    ['2130706433', true], // 127.0.0.1 as one number, which a browser sends in the usual form
    ['evil.example', false],
    ['localhost.evil.example', false],
    ['', false],
    ['bridge:8081', false],
  ])('is named by the host %s: %s', (host, expected) => expect(isLoopbackHost(host)).toBe(expected));
});
