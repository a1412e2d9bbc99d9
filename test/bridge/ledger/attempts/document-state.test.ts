import { describe, expect, test } from 'vitest';
import { type DocumentFacts, stateOf } from '#bridge/ledger/attempts/document-state.ts';

const now = '2030-01-01T12:00:00.000000Z';
const earlier = '2030-01-01T11:00:00.000000Z';
const later = '2030-01-01T13:00:00.000000Z';

/** A document that the ERP has as it should be. */
const delivered: DocumentFacts = {
  due: null,
  waitingSince: null,
  deadSince: null,
  attempts: 0,
  errorType: null,
  lastError: null,
  delivered: earlier,
  isHeld: true,
  reference: 'PO-1',
  intentAt: null,
  callEnded: null,
  isWithdrawal: false,
  isTaken: true,
  pausedReason: null,
  circuitUntil: null,
  throttledUntil: null,
};
const waiting: DocumentFacts = { ...delivered, due: earlier, waitingSince: earlier };
const failed: DocumentFacts = { ...waiting, due: later, attempts: 3, errorType: 'transient', lastError: 'HTTP 503' };

describe('the state of a document', () => {
  test.each<[string, DocumentFacts, object]>([
    ['that the ERP has', delivered, { state: 'delivered', why: null, since: earlier }],
    ['that was cancelled there', { ...delivered, isHeld: false }, { state: 'cancelled', since: earlier }],
    ['that was never wanted', { ...delivered, isHeld: false, delivered: null }, { state: 'nothing', since: null }],
    ['whose turn comes', waiting, { state: 'waiting', why: 'its turn comes', until: null }],
    ['that failed', failed, { state: 'waiting', why: 'the last 3 tries failed: HTTP 503', until: later }],
    [
      'of a paused flow, whatever it waited for before',
      { ...failed, pausedReason: 'month end' },
      { state: 'waiting', why: 'its flow is paused: month end', until: null },
    ],
    [
      'while the circuit is open',
      { ...failed, due: earlier, circuitUntil: later },
      { state: 'waiting', why: expect.stringContaining('too many failures in a row'), until: later },
    ],
    ['while the circuit is half open', { ...waiting, circuitUntil: earlier }, { why: 'its turn comes', until: null }],
    ['while the ERP limits its callers', { ...waiting, throttledUntil: later }, { until: later }],
    [
      'whose call was cut off',
      { ...failed, errorType: 'unknown', intentAt: earlier, callEnded: earlier },
      { state: 'waiting', why: 'HTTP 503; then the ERP is asked what it holds', until: later },
    ],
    ['whose call has not ended', { ...waiting, intentAt: earlier }, { state: 'under way' }],
    [
      'that waits for a record',
      { ...waiting, due: later, errorType: 'not-yet', lastError: 'the event has not been read yet' },
      { state: 'waiting', why: 'the event has not been read yet', until: later },
    ],
    [
      'on hold',
      { ...delivered, errorType: 'held', lastError: 'its event is OPEN' },
      { state: 'held', why: 'its event is OPEN' },
    ],
    [
      'that was refused',
      { ...delivered, deadSince: earlier, lastError: 'no such vendor' },
      { state: 'dead letter', why: 'no such vendor', since: earlier, until: null },
    ],
    ['of a kind that its flow no longer takes', { ...failed, isTaken: false }, { state: 'nothing', until: null }],
  ])('%s', (_what, facts, state) => {
    expect(stateOf(facts, now)).toMatchObject(state);
  });
});
