/** A live flow `erp` and its shadow `erp-new` with another mapping, on one mirror. */
import { registerFlows } from '#bridge/flows/register-flows.ts';
import { createSecretRedactor } from '#bridge/flows/secret-redactor.ts';
import type { FlowSettings } from '#bridge/settings.ts';
import { createExamination } from '#bridge/shadow/examine-flow.ts';
import { readOnlySession } from '#bridge/shadow/read-only-session.ts';
import { readShadowDocuments, readShadowStatuses, type ShadowFilter } from '#bridge/shadow/shadow-store.ts';
import type { Session } from '#connector/connector.ts';
import { timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { flowOf, startProcess } from '../parts.ts';
import type { FakeErp } from '../push/fake-erp.ts';
import { createPusher, type Pusher } from '../push/pusher.ts';

/** Another mapping: the plant of the order. */
export const plant = (value: string): Pick<FlowSettings, 'mapping'> => {
  const { mapping } = flowOf({ mapping: { award: { fields: { plant: { value } } } } } as never);
  return { mapping };
};

export interface ShadowWorld extends Pusher {
  readonly live: FlowSettings;
  readonly shadow: FlowSettings;
  /** Registers these flows as a process does that starts with them. */
  register(...flows: FlowSettings[]): ReturnType<typeof registerFlows>;
  /** Delivers by the live flow; or by this one. */
  deliver(erp: FakeErp, flow?: FlowSettings): Promise<void>;
  /** Examines as the shadow's worker does; the connector is this ERP's. */
  examine(erp: FakeErp, session?: Partial<Session>, stop?: AbortController): Promise<void>;
  documents(filter?: ShadowFilter): ReturnType<typeof readShadowDocuments>;
  status(): Promise<Awaited<ReturnType<typeof readShadowStatuses>>[number] | undefined>;
}

export async function createShadowWorld(settings: Partial<FlowSettings> = {}): Promise<ShadowWorld> {
  const pusher = await createPusher(6);
  const live = pusher.flow;
  const shadow = flowOf({ name: 'erp-new', ...plant('2000'), shadow: true, ...settings });
  const register: ShadowWorld['register'] = (...flows) =>
    registerFlows(pusher.db.database, flows, timestampNow(pusher.clock));
  await register(live, shadow);
  return {
    ...pusher,
    live,
    shadow,
    register,
    deliver: async (erp, flow = live) => (await pusher.worker(erp, { flow })).push(),
    examine: async (erp, session = {}, stop = new AbortController()) => {
      const process = await startProcess(pusher.db);
      const opened = readOnlySession({ ...erp.session, ...session }, shadow.name);
      const openFlow = { flow: shadow, connector: erp.connector, session: opened, secrets: createSecretRedactor({}) };
      const { database, acquireLease } = process;
      const deps = { database, acquireLease, clock: pusher.clock, log: silentLogger, abortGraceMs: 20 };
      await createExamination({ ...deps, openFlow, live })(stop.signal);
    },
    documents: (filter = {}) => readShadowDocuments(pusher.db.database, shadow.name, { limit: 100, ...filter }),
    status: async () => (await readShadowStatuses(pusher.db.database)).find(({ flow }) => flow === shadow.name),
  };
}
