import { describe, expect, test } from 'vitest';
import type { Operation, Outcome } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import {
  AuthError,
  ConfigError,
  ConflictError,
  DataError,
  LockedError,
  RateLimited,
  TransientError,
  UnknownOutcome,
} from '#connector/errors.ts';
import { lookupEach, outcomeOf, stopped, writeEach } from '#connector/outcomes.ts';

const never = new AbortController().signal;
const operations = ['a', 'b', 'c', 'd'].map((key) => ({ document: { key } }) as Operation);
const done = ({ document }: Operation): Outcome => ({ status: 'created', reference: document.key });

describe('an error that a connector throws', () => {
  const kinds: [Error, Outcome][] = [
    [new TransientError('m'), { status: 'retry', error: { type: 'transient', message: 'm' } }],
    [new LockedError('m'), { status: 'retry', error: { type: 'locked', message: 'm' } }],
    [new AuthError('m'), { status: 'retry', error: { type: 'auth', message: 'm' } }],
    [new ConfigError('m'), { status: 'retry', error: { type: 'config', message: 'm' } }],
    [new DataError('m'), { status: 'rejected', error: { type: 'data', message: 'm' } }],
    [new ConflictError('m'), { status: 'rejected', error: { type: 'conflict', message: 'm' } }],
    [new RateLimited('m'), { status: 'retry', error: { type: 'rate-limited', message: 'm' } }],
    [
      new RateLimited('m', { retryAfterMs: 5 }),
      { status: 'retry', error: { type: 'rate-limited', message: 'm', retryAfterMs: 5 } },
    ],
    [new UnknownOutcome('m'), { status: 'unknown', message: 'm' }],
    [new UnknownOutcome('m', { answered: true }), { status: 'unknown', message: 'm', answered: true }],
    // It may have been thrown after the request was sent.
    [new TypeError('m'), { status: 'unknown', message: 'm' }],
  ];
  test.each(kinds)('of the class of %s becomes the outcome that says what the bridge has to do', (error, outcome) => {
    expect(outcomeOf(error)).toEqual(outcome);
  });
});

describe('writeEach', () => {
  test('returns an outcome for each operation, whatever the others do', async () => {
    const outcomes = await writeEach(
      operations,
      async (operation) => {
        if (operation.document.key === 'b') throw new DataError('bad');
        if (operation.document.key === 'c') throw new UnknownOutcome('gone');
        return done(operation);
      },
      { signal: never, atOnce: 2 },
    );
    expect(outcomes.map(({ status }) => status)).toEqual(['created', 'rejected', 'unknown', 'created']);
  });

  test('handles an error that is thrown before the first await', async () => {
    const throwing = (): Promise<Outcome> => {
      throw new DataError('bad');
    };
    const outcomes = await writeEach(operations, throwing, { signal: never });
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected', 'rejected']);
  });

  test.each([new RateLimited('later', { retryAfterMs: 9 }), new AuthError('no'), new ConfigError('no')])(
    'sends no further operation after %s: the others get the same outcome',
    async (error) => {
      const sent: string[] = [];
      const outcomes = await writeEach(
        operations,
        async (operation) => {
          sent.push(operation.document.key);
          if (operation.document.key === 'b') throw error;
          return done(operation);
        },
        { signal: never },
      );
      expect(sent).toEqual(['a', 'b']);
      expect(outcomes).toEqual([
        done(operations[0] as Operation),
        ...Array.from({ length: 3 }, () => outcomeOf(error)),
      ]);
    },
  );

  test('starts no further operation after an abort; a running one keeps its outcome', async () => {
    const stop = new AbortController();
    const outcomes = await writeEach(
      operations,
      async (operation) => {
        if (operation.document.key === 'b') stop.abort();
        return done(operation);
      },
      { signal: stop.signal },
    );
    expect(outcomes).toEqual([...operations.slice(0, 2).map(done), stopped, stopped]);
  });

  test('runs at most atOnce operations at the same time', async () => {
    let running = 0;
    let runningMax = 0;
    const outcomes = await writeEach(
      operations,
      async (operation) => {
        running += 1;
        runningMax = Math.max(runningMax, running);
        await new Promise(setImmediate);
        running -= 1;
        return done(operation);
      },
      { signal: never, atOnce: 3 },
    );
    expect(runningMax).toBe(3);
    expect(outcomes).toEqual(operations.map(done));
  });
});

describe('lookupEach', () => {
  const documents = Array.from({ length: 12 }, (_, index) => ({ key: `k${index}` }) as Document);
  const foundOf = ({ key }: Document) => [{ key, reference: `r-${key}`, contentHash: undefined }];

  test('returns what is found for each document, and the reason for a document that is unclear', async () => {
    const find = async (document: Document) => {
      if (document.key === 'k3') throw new TransientError('the ERP answered 500');
      return document.key === 'k4' ? [] : [...foundOf(document), ...(document.key === 'k5' ? foundOf(document) : [])];
    };
    const found = await lookupEach(documents.slice(2, 7), find, { signal: never, atOnce: 2 });
    expect(found.map((one) => ('unclear' in one ? `${one.key}: ${one.unclear}` : one.reference))).toEqual([
      'r-k2',
      'k3: the ERP answered 500',
      'r-k5',
      'r-k5',
      'r-k6',
    ]);
  });

  test.each([
    ['rate limited', new RateLimited('slow down'), 1],
    ['refusing the login', new AuthError('who?'), 1],
    ['unavailable', new TransientError('nothing there'), 5],
    ['misconfigured', new ConfigError('no list'), 5],
  ])('stops when the ERP is %s', async (_what, error, asked) => {
    let calls = 0;
    const find = async (): Promise<[]> => {
      calls += 1;
      throw error;
    };
    const found = await lookupEach(documents, find, { signal: never });
    expect(calls).toBe(asked);
    expect(found).toEqual(documents.map(({ key }) => ({ key, unclear: error.message })));
  });

  test('goes on when failures do not follow each other', async () => {
    let calls = 0;
    const find = async (document: Document) => {
      calls += 1;
      if (calls % 2 === 0) throw new TransientError('odd');
      return foundOf(document);
    };
    await lookupEach(documents, find, { signal: never });
    expect(calls).toBe(documents.length);
  });

  test('stops after an abort, and the remaining documents are unclear', async () => {
    const stop = new AbortController();
    const find = async (document: Document) => {
      stop.abort();
      return foundOf(document);
    };
    const found = await lookupEach(documents.slice(0, 3), find, { signal: stop.signal });
    expect(found.map((one) => 'unclear' in one)).toEqual([false, true, true]);
  });
});
