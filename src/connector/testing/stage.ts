/**
 * The stage of a check: it opens sessions of the connector, each with its own fault proxy before the ERP, and makes new
 * sample documents. It closes whatever it has opened.
 */
import { tmpdir } from 'node:os';
import type { Capabilities, Operation } from '#connector/connector.ts';
import { type Document, type DocumentKind, documentSchemas } from '#connector/documents.ts';
import { secretsIn } from '#connector/settings.ts';
import { endsWithin } from './ends-within.ts';
import { expectHeld } from './expect-held.ts';
import type { FaultProxy } from './fault-proxy.ts';
import { failCheck, NotApplicable } from './finding.ts';
import { startHttpFaultProxy } from './http-fault-proxy.ts';
import type { LeakDetector } from './leak-detector.ts';
import { operation, outcomeText, slices } from './operations.ts';
import { type Sample, sampleOf } from './sample-documents.ts';
import type { ConformanceTarget } from './target.ts';
import { startTcpFaultProxy } from './tcp-fault-proxy.ts';
import { testContext } from './test-context.ts';
import { type WatchedSession, watchSession } from './watched-session.ts';

/** The limit of a call that should take moments, where the connector declares a `timeoutMs` of minutes. */
const callMsMax = 30_000;
/** How long the ERP may take to answer a request that the connector does not wait for any more. */
const answerMs = 5_000;

export type Stage = ReturnType<typeof createStage>;

/** A stage for one check; the check closes it at its end. */
export function createStage(target: ConformanceTarget, leakDetector: LeakDetector, { stopMs }: { stopMs: number }) {
  const { connector } = target;
  const sessions = new Set<WatchedSession>();
  /** Includes proxies whose session failed to open. */
  const proxies = new Set<FaultProxy>();
  let capabilities = connector.capabilities;

  async function startProxy(): Promise<FaultProxy | undefined> {
    if (!target.proxy) return undefined;
    const start = target.proxy.protocol === 'http' ? startHttpFaultProxy : startTcpFaultProxy;
    const proxy = await start(target.proxy.address());
    proxies.add(proxy);
    return proxy;
  }

  async function open(): Promise<WatchedSession> {
    const proxy = await startProxy();
    const parsed = connector.settings.parse(target.settings(proxy?.address ?? ''));
    leakDetector.learn(secretsIn(parsed));
    capabilities = { ...connector.capabilities, ...connector.capabilitiesWith?.(parsed) };
    const { context, lines } = testContext({ dataDir: target.dataDir?.() ?? tmpdir() });
    const session = await connector.open(parsed, context);
    const callMs = Math.min(capabilities.timeoutMs + stopMs, callMsMax);
    const watched = watchSession(session, { proxy, leakDetector, logged: lines, callMs });
    sessions.add(watched);
    return watched;
  }

  /** Creates the first versions in as few writes as possible; returns the operations with their references. */
  async function create(session: WatchedSession, samples: readonly Sample[]): Promise<Operation[]> {
    const created: Operation[] = [];
    const operations = samples.map((sample) => operation('create', sample, sample.versions[0]));
    for (const slice of slices(operations, capabilities.batchMax)) {
      const outcomes = await session.write(slice);
      for (const [index, operation] of slice.entries()) {
        const outcome = outcomes[index];
        if (!outcome || !('reference' in outcome))
          failCheck({
            expected: `the ERP accepts the kit's ${operation.document.kind} documents`,
            seen: outcomeText(outcome),
            lookAt:
              'the ERP’s answer, then the mapping; create what the ERP has to have first (a vendor, a material) before the tests, and name it in adapt()',
          });
        created.push({ ...operation, reference: outcome.reference });
      }
    }
    return created;
  }

  /** Closes sessions and their proxies before the end of the check, because an ERP has a limited number of connections. */
  async function leave(...left: WatchedSession[]): Promise<void> {
    // The check "close" tests that a session closes. Here a session that does not close must only not block the others.
    const closing = Promise.allSettled(left.map(async (session) => session.close()));
    await endsWithin(stopMs, 'close()', 'close()', closing).catch(() => undefined);
    for (const session of left) {
      sessions.delete(session);
      if (!session.proxy) continue;
      proxies.delete(session.proxy);
      await session.proxy.close();
    }
  }

  const kinds = target.kinds ?? connector.capabilities.kinds;
  return {
    target,
    connector,
    get capabilities(): Capabilities {
      return capabilities;
    },
    kinds,
    /** The kinds whose writes are disturbed by faults. */
    faultKinds: target.faultKinds ?? kinds,
    leakDetector,
    /** How long a connector may take to stop after an abort. */
    stopMs,
    /** An address on which nothing listens, in the form of the target's addresses. */
    deadAddress: deadAddressOf(target),
    open,
    /** Throws NotApplicable when the ERP is not reached over a network. */
    needProxy: ({ proxy }: WatchedSession): FaultProxy => {
      if (!proxy) throw new NotApplicable('the ERP is not reached over a network');
      return proxy;
    },
    /** Throws NotApplicable when the ERP is not reached over HTTP. */
    needHttpProxy: ({ proxy }: WatchedSession): FaultProxy => {
      if (!proxy || target.proxy?.protocol !== 'http') throw new NotApplicable('the ERP is not reached over HTTP');
      return proxy;
    },
    /** A new sample document, adapted to what the ERP accepts. */
    sample: (kind: DocumentKind, n = 0): Sample => adaptedSample(target, kind, n),
    create,
    /** See expect-held.ts. */
    expectHeld: (sample: Sample, version: Document | undefined, when: string, lookAt?: string) =>
      expectHeld(target, sample, version, { when, lookAt }),
    /** Resolves when earlier calls of these sessions can no longer take effect. */
    waitUntilIdle: async (...given: readonly WatchedSession[]): Promise<void> => {
      for (const { proxy } of given)
        if (proxy) await endsWithin(answerMs, 'the ERP’s answer', 'the ERP', proxy.untilIdle());
      await target.idle?.();
    },
    leave,
    close: async (): Promise<void> => {
      await leave(...sessions);
      await Promise.all([...proxies].map((proxy) => proxy.close()));
    },
  };
}

/** Port 9 (discard), on which no server listens. */
function deadAddressOf({ proxy }: ConformanceTarget): string {
  if (!proxy) return '';
  return proxy.protocol === 'http' ? 'http://127.0.0.1:9' : '127.0.0.1:9';
}

function adaptedSample(target: ConformanceTarget, kind: DocumentKind, n: number): Sample {
  const { versions, withdrawn, ...sample } = sampleOf(kind, n);
  const [first, second, third] = versions;
  return {
    ...sample,
    versions: [adapted(target, first), adapted(target, second), adapted(target, third)],
    withdrawn: withdrawn && adapted(target, withdrawn),
  };
}

function adapted({ adapt }: ConformanceTarget, document: Document): Document {
  if (!adapt) return document;
  const made = adapt(document);
  const { success, error } = documentSchemas[document.kind].safeParse(made);
  if (!success || made.key !== document.key)
    failCheck({
      expected: `target.adapt() returns a valid ${document.kind} document and keeps its key`,
      seen: success ? `the key ${made.key}` : String(error),
      lookAt: 'adapt() in the conformance test',
    });
  return made;
}
