/**
 * The checks of the conformance kit that an ordinary run makes of a connector whose ERP is slow: those in which an ERP
 * differs from the next one. The others are about HTTP, time and load, and run with all kinds where the whole kit is asked
 * for (`npm run test:tryton`, `npm run test:sap`).
 */
import type { ConformanceTest } from 'sourcing-bridge/connector/testing';

const ordinaryChecks = [
  'check',
  'same document twice',
  'fidelity',
  'withdrawal',
  'poisoned record',
  'crash',
  'refused in the middle',
  'expired login',
  'read',
  'open requisitions',
  'acknowledge',
  'read back',
] as const;

export function isOrdinary({ title }: ConformanceTest): boolean {
  return ordinaryChecks.some((name) => title.startsWith(`${name}: `));
}
