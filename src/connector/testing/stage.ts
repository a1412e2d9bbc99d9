/**
 * What a check works with: sessions of the connector, each with an proxy of its own before the ERP, documents that are
 * fresh, and the ways in which the bridge calls a connector. Closes what it has opened.
 */
import { tmpdir } from 'node:os';
import type { Capabilities, Connector, Operation } from '#connector/connector.ts';
import { type Document, type DocumentKind, documentSchemas } from '#connector/documents.ts';
import { secretsIn } from '#connector/settings.ts';
import type { Compared } from './compare.ts';
import { expectHeld } from './expect-held.ts';
import type { FaultProxy } from './fault-proxy.ts';
import { fault, NotApplicable } from './finding.ts';
import { startHttpFaultProxy } from './http-fault-proxy.ts';
import type { LeakDetector } from './leak-detector.ts';
import { operation, shownOutcome, slices } from './operations.ts';
import { type Sample, sampleOf } from './sample-documents.ts';
import type { ConformanceTarget } from './target.ts';
import { startTcpFaultProxy } from './tcp-fault-proxy.ts';
import { testContext } from './test-context.ts';
import { type Opened, watchSession } from './watched-session.ts';
import { within } from './within.ts';

/** What a call that should take moments may take, where the connector allows itself minutes. */
const callMsMost = 30_000;
/** An ERP that was asked something has this long to answer, whether anybody waits for it or not. */
const answerMs = 5_000;

export interface Stage {
  readonly target: ConformanceTarget;
  readonly connector: Connector;
  readonly capabilities: Capabilities;
  readonly kinds: readonly DocumentKind[];
  /** Those whose writes are disturbed. */
  readonly faultKinds: readonly DocumentKind[];
  readonly told: LeakDetector;
  /** The bridge gives a connector this long to stop after it was told to. */
  readonly stopMs: number;
  open(): Promise<Opened>;
  /** Ends sessions and their proxies before the check ends: an ERP has only so many connections. */
  leave(...opened: Opened[]): Promise<void>;
  /** Where nothing listens, in the form of the target's addresses. */
  readonly deadAddress: string;
  /** The check does not apply without. */
  needProxy(opened: Opened): FaultProxy;
  needHttpProxy(opened: Opened): FaultProxy;
  /** A document as the ERP can take it. */
  sample(kind: DocumentKind, n?: number): Sample;
  /** Creates the first versions, in as few writes as there may be. */
  create(opened: Opened, samples: readonly Sample[]): Promise<Operation[]>;
  /**
   * Fails unless the ERP holds exactly this, once; with undefined: nothing. `when` says after what, `lookAt` where the
   * author finds why it holds something else.
   */
  expectHeld(sample: Sample, version: Document | undefined, when: string, lookAt?: string): Promise<Compared>;
  /** Resolves when earlier calls can take no effect any more. */
  settled(...opened: Opened[]): Promise<void>;
  close(): Promise<void>;
}

export function createStage(target: ConformanceTarget, told: LeakDetector, { stopMs }: { stopMs: number }): Stage {
  const { connector } = target;
  const opened = new Set<Opened>();
  /** Also those whose session did not open. */
  const proxies = new Set<FaultProxy>();
  let capabilities = connector.capabilities;

  async function startProxy(): Promise<FaultProxy | undefined> {
    if (!target.proxy) return undefined;
    const start = target.proxy.protocol === 'http' ? startHttpFaultProxy : startTcpFaultProxy;
    const proxy = await start(target.proxy.address());
    proxies.add(proxy);
    return proxy;
  }

  async function open(): Promise<Opened> {
    const proxy = await startProxy();
    const parsed = connector.settings.parse(target.settings(proxy?.address ?? ''));
    told.learn(secretsIn(parsed));
    capabilities = { ...connector.capabilities, ...connector.capabilitiesWith?.(parsed) };
    const { context, lines } = testContext({ dataDir: target.dataDir?.() ?? tmpdir() });
    const session = await connector.open(parsed, context);
    const callMs = Math.min(capabilities.timeoutMs + stopMs, callMsMost);
    const one = watchSession(session, { proxy, told, logged: lines, callMs });
    opened.add(one);
    return one;
  }

  async function create(one: Opened, samples: readonly Sample[]): Promise<Operation[]> {
    const created: Operation[] = [];
    const operations = samples.map((sample) => operation('create', sample, sample.versions[0]));
    for (const slice of slices(operations, capabilities.batchMax)) {
      const outcomes = await one.write(slice);
      for (const [index, operation] of slice.entries()) {
        const outcome = outcomes[index];
        if (!outcome || !('reference' in outcome))
          fault({
            expected: `the ERP takes the kit's ${operation.document.kind} documents`,
            seen: shownOutcome(outcome),
            lookAt:
              'the ERP’s answer, then the mapping; what has to be in the ERP first (a vendor, a material) is made before the tests, and named by adapt()',
          });
        created.push({ ...operation, reference: outcome.reference });
      }
    }
    return created;
  }

  async function leave(...some: Opened[]): Promise<void> {
    // That a session closes is what one check is for; here it may only not keep the others waiting.
    const closing = Promise.allSettled(some.map(async (one) => one.close()));
    await within(stopMs, 'close()', 'close()', closing).catch(() => undefined);
    for (const one of some) {
      opened.delete(one);
      if (!one.proxy) continue;
      proxies.delete(one.proxy);
      await one.proxy.close();
    }
  }

  const kinds = target.kinds ?? connector.capabilities.kinds;
  return {
    target,
    connector,
    get capabilities() {
      return capabilities;
    },
    kinds,
    faultKinds: target.faultKinds ?? kinds,
    told,
    stopMs,
    deadAddress: deadAddressOf(target),
    open,
    needProxy: ({ proxy }) => {
      if (!proxy) throw new NotApplicable('the ERP is not reached over a network');
      return proxy;
    },
    needHttpProxy: ({ proxy }) => {
      if (!proxy || target.proxy?.protocol !== 'http') throw new NotApplicable('the ERP is not reached over HTTP');
      return proxy;
    },
    sample: (kind, n = 0) => adaptedSample(target, kind, n),
    create,
    expectHeld: async (sample, version, when, lookAt) => expectHeld(target, sample, version, { when, lookAt }),
    settled: async (...some) => {
      for (const { proxy } of some) if (proxy) await within(answerMs, 'the ERP’s answer', 'the ERP', proxy.quiet());
      await target.settled?.();
    },
    leave,
    close: async () => {
      await leave(...opened);
      await Promise.all([...proxies].map((proxy) => proxy.close()));
    },
  };
}

/** The discard port, which nobody uses. */
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
    fault({
      expected: `target.adapt() gives a ${document.kind} document with the key that it had`,
      seen: success ? `the key ${made.key}` : String(error),
      lookAt: 'adapt() in the conformance test',
    });
  return made;
}
