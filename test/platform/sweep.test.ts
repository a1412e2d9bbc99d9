import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createLogger } from '#platform/log.ts';
import type { Signals } from '#platform/queue.ts';
import { createSweep, type SweptLane } from '#platform/sweep.ts';

/** A sweep over the test's own lanes; `everyMs` is long unless the test waits for the next sweep. */
function startSweep(options: { lanes?: SweptLane[]; everyMs?: number; also?: () => Promise<void> } = {}) {
  const signalled: [string, readonly string[]][] = [];
  const lines: string[] = [];
  const signals = {
    wakeHere: (lane: string, keys: readonly string[]) => {
      if (keys.length > 0) signalled.push([lane, keys]);
    },
  } as Partial<Signals> as Signals;
  const sweep = createSweep({
    signals,
    lanes: options.lanes ?? [],
    everyMs: options.everyMs ?? 600_000,
    log: createLogger({ name: 'test', level: 'info', destination: { write: (line) => void lines.push(line) } }),
    ...(options.also ? { also: options.also } : {}),
  });
  onTestFinished(() => sweep.close());
  return { sweep, signalled, lines };
}

describe('the sweep', () => {
  test('begins at once: work that a crash left does not wait for the first interval', async () => {
    const { signalled } = startSweep({ lanes: [{ lane: 'jobs', due: async () => ['a', 'b'] }] });
    await expect.poll(() => signalled).toEqual([['jobs', ['a', 'b']]]);
  });

  test('runs again after every interval', async () => {
    const due = vi.fn<() => Promise<string[]>>(async () => []);
    startSweep({ lanes: [{ lane: 'jobs', due }], everyMs: 1 });
    await expect.poll(() => due.mock.calls.length).toBeGreaterThan(3);
  });

  test('signals nothing where nothing is due', async () => {
    const also = vi.fn<() => Promise<void>>(async () => undefined);
    const { signalled } = startSweep({ lanes: [{ lane: 'jobs', due: async () => [] }], also });
    await expect.poll(() => also.mock.calls.length).toBe(1);
    expect(signalled).toEqual([]);
  });

  test('that fails is tried again by the next; a failure of all lanes is one line, and its end another', async () => {
    let calls = 0;
    const due = async () => {
      calls += 1;
      if (calls <= 6) throw new Error('the database is away');
      return ['a'];
    };
    const lanes = ['jobs', 'feeds'].map((lane) => ({ lane, due }));
    const { signalled, lines } = startSweep({ lanes, everyMs: 1 });
    await expect.poll(() => signalled.length).toBeGreaterThan(4);
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { level: 'warn', lane: 'jobs', error: 'the database is away' },
      { level: 'info', msg: 'sweeps work again' },
    ]);
  });

  test('that is closed ends with the lane that it is at: a stop does not wait for the others', async () => {
    const asked = Promise.withResolvers<string[]>();
    const due = vi.fn<() => Promise<string[]>>(() => asked.promise);
    const also = vi.fn<() => Promise<void>>(async () => undefined);
    const { sweep } = startSweep({ lanes: ['feeds', 'jobs'].map((lane) => ({ lane, due })), also });
    await expect.poll(() => due.mock.calls.length).toBe(1);
    const closed = sweep.close();
    asked.resolve([]);
    await closed;
    expect(due).toHaveBeenCalledTimes(1);
    expect(also).not.toHaveBeenCalled();
  });

  test('of a lane that fails does not stop the other lanes and the housekeeping', async () => {
    const also = vi.fn<() => Promise<void>>(async () => undefined);
    const { signalled, lines } = startSweep({
      lanes: [
        { lane: 'broken', due: () => Promise.reject(new Error('bad row')) },
        { lane: 'jobs', due: async () => ['a'] },
      ],
      also,
    });
    await expect.poll(() => signalled).toEqual([['jobs', ['a']]]);
    await expect.poll(() => also.mock.calls.length).toBe(1);
    await expect.poll(() => lines.length).toBe(1);
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ level: 'warn', lane: 'broken', error: 'bad row' });
  });

  test('never runs twice at a time, however long it takes', async () => {
    const release = Promise.withResolvers<void>();
    let running = 0;
    let runningMost = 0;
    let ended = 0;
    const due = async () => {
      running += 1;
      runningMost = Math.max(runningMost, running);
      await release.promise;
      running -= 1;
      ended += 1;
      return [];
    };
    const { sweep } = startSweep({ lanes: [{ lane: 'jobs', due }], everyMs: 1 });
    const asked = sweep.now();
    // A timer of the same interval has fired several times while the first sweep runs.
    let rounds = 0;
    const timer = setInterval(() => {
      rounds += 1;
    }, 1);
    await expect.poll(() => rounds).toBeGreaterThan(5);
    clearInterval(timer);
    expect(running).toBe(1);
    release.resolve();
    await asked;
    await expect.poll(() => ended).toBeGreaterThan(2);
    expect(runningMost).toBe(1);
  });

  test('now() runs a sweep that begins after the call, and rejects when it fails', async () => {
    let fault: Error | undefined;
    const seen: string[] = [];
    let due = 'old';
    const { sweep } = startSweep({
      lanes: [
        {
          lane: 'jobs',
          due: async () => {
            seen.push(due);
            if (fault) throw fault;
            return [];
          },
        },
      ],
    });
    await expect.poll(() => seen).toEqual(['old']);
    due = 'new';
    await sweep.now();
    expect(seen).toEqual(['old', 'new']);
    fault = new Error('away');
    await expect(sweep.now()).rejects.toThrow('away');
  });

  test('closes after the sweep that is running, and no other follows', async () => {
    const release = Promise.withResolvers<string[]>();
    const due = vi.fn<() => Promise<string[]>>(() => release.promise);
    const { sweep, signalled } = startSweep({ lanes: [{ lane: 'jobs', due }], everyMs: 1 });
    await expect.poll(() => due.mock.calls.length).toBe(1);
    let closed = false;
    const closing = sweep.close().then(() => {
      closed = true;
    });
    expect(closed).toBe(false);
    release.resolve(['a']);
    await closing;
    expect(signalled).toEqual([['jobs', ['a']]]);
    expect(due).toHaveBeenCalledTimes(1);
  });
});
