/**
 * A world for intakes of requisitions: an ERP and a service in memory, both of which misbehave as a seed draws it,
 * around the real worker and a real database. A process dies at any await. What the service is asked to do is applied by
 * rules that were written from the API document, not by the code under test; the service itself reports an event that is
 * made twice.
 */
import type { z } from 'zod';
import { createErpReader } from '#bridge/intake/read-erp.ts';
import { registerIntakes } from '#bridge/intake/register-intakes.ts';
import { createWishOf } from '#bridge/intake/requisitions/requisition-need.ts';
import { createIntakeRun } from '#bridge/intake/run-intake.ts';
import { createErpTeller } from '#bridge/intake/tell-erp.ts';
import { createWanted } from '#bridge/intake/wanted-supplier.ts';
import { createLeases } from '#bridge/ledger/leases/lease.ts';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings/settings.ts';
import { AnswerError } from '#client/read-answer.ts';
import type { Acknowledgement } from '#connector/acknowledgements.ts';
import type { Outcome, Session } from '#connector/connector.ts';
import { TransientError } from '#connector/errors.ts';
import type { RequisitionRecord } from '#connector/records.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { fetchErrorOf } from '#platform/guarded-fetch/fetch-error.ts';
import { silentLogger } from '#platform/log.ts';
import type { Random } from '../../simulation/random.ts';
import { settingsOf, type TestClock, testClock } from '../parts.ts';
import { clientOf } from './client-of.ts';
import { type Chaos, calm, dyingDatabase } from './intake-world.ts';

interface Lot {
  name: string;
  values: { column: string; value: string }[];
}

export interface HeldEvent {
  readonly id: string;
  readonly reference: string;
  readonly madeMs: number;
  name: string;
  status: string;
  lots: Lot[];
  modifiedMs: number;
  files: string[];
}

interface Job {
  readonly id: string;
  readonly key: string;
  readonly type: string;
  readonly body: Record<string, unknown>;
  readonly createdMs: number;
  readonly takesMs: number;
  status: 'PENDING' | 'COMPLETED' | 'FAILED';
  entity?: string;
  errors?: { path?: string; message: string }[];
}

/** What the service refuses: by 400 at once, or as a FAILED job that names the lot, or that names nothing. */
export const refusedItems = { atOnce: 'Broken', named: 'Refused', nameless: 'Odd' };

/** How the answer to a POST may be lost; `after`: it was taken. */
export const postEnds = ['429', '500', '500 after', 'reset', 'reset after', 'late', 'no id'] as const;

class Died extends Error {}

export type RequisitionWorld = ReturnType<typeof createRequisitionWorld>;

const pathTypes: Readonly<Record<string, string>> = {
  'create-sourcing-events': 'CREATE_SOURCING_EVENT',
  'update-sourcing-event': 'UPDATE_SOURCING_EVENT',
  'create-sourcing-requests': 'CREATE_SOURCING_REQUEST',
  'attach-files-to-sourcing-event': 'ATTACH_FILES_TO_SOURCING_EVENT',
};

export function createRequisitionWorld(options: {
  database: Database;
  random: Random;
  intake?: Record<string, unknown>;
  /** Whether the service recognises idempotency keys, and lists its jobs. */
  idempotent?: boolean;
  listsJobs?: boolean;
}) {
  const { database, random, idempotent = true, listsJobs = true } = options;
  const clock: TestClock = testClock();
  const settings: BridgeSettings = { ...settingsOf({ timeout_seconds: 5, event_url: 'https://s.example/e/{id}' }) };
  const [source] = settings.sources;
  if (!source) throw new Error('no source');
  const [intake] = bridgeSettings.parse({
    sources: [{ name: 'main', base_url: 'http://127.0.0.1:1', api_key: 'key', quotas: { enabled: false } }],
    intakes: [
      {
        name: 'requisitions',
        source: 'main',
        connector: 'memory',
        stream: 'requisition',
        make: 'event',
        poll_seconds: 10,
        ...options.intake,
      },
    ],
  }).intakes;
  if (!intake) throw new Error('no intake');
  const erp = new Map<string, RequisitionRecord>();
  const log: string[] = [];
  const events = new Map<string, HeldEvent>();
  const requests = new Map<string, { id: string; reference: string; madeMs: number }>();
  const jobs: Job[] = [];
  const arriving: { atMs: number; submit: () => void }[] = [];
  /** What the ERP shows of its requisitions, and the keys of the news in the order in which they took effect. */
  const shown = new Map<string, Acknowledgement>();
  const told: Acknowledgement[] = [];
  const shownTurns = new Map<string, number>();
  let tells = 0;
  let nextNews: 'late' | undefined;
  let refusesNews: string | undefined;
  const posts: { path: string; body: Record<string, unknown> }[] = [];
  const violations: string[] = [];
  let chaos: Chaos = calm;
  let nextPost: (typeof postEnds)[number] | '400' | 'failed' | undefined;
  let feedLagMs = 0;
  let processNumber = 0;
  const dead = new Set<number>();
  const frozen = new Set<number>();

  function save(record: RequisitionRecord) {
    erp.set(record.reference_id, record);
    log.push(record.reference_id);
  }

  function sessionOf(point: () => void): Session {
    return {
      acknowledge: async (given: readonly Acknowledgement[]) => {
        if (new Set(given.map(({ requisition }) => requisition)).size !== given.length)
          violations.push('one requisition twice in a call of acknowledge');
        const outcomes: Outcome[] = [];
        for (const news of given) {
          point();
          outcomes.push(tell(news));
        }
        point();
        return outcomes;
      },
      async *read(_stream: string, checkpoint: string | undefined) {
        const repeated = random.chance(chaos.read) ? random.whole(0, 4) : 0;
        let after = Math.max(0, Number(checkpoint ?? 0) - repeated);
        while (after < log.length) {
          point();
          if (random.chance(chaos.read)) throw new TransientError('The ERP is away.');
          const keys = [...new Set(log.slice(after, after + 3))];
          after = Math.min(log.length, after + 3);
          const records = keys.flatMap((key) => structuredClone(erp.get(key)) ?? []);
          yield { records, checkpoint: String(after) };
        }
      },
      async *openRequisitions() {
        const open = [...erp.values()].filter((record) => record.open).map(({ reference_id: key }) => key);
        // A list whose pages move while they are read leaves out one now and then.
        const shown = open.filter(() => !random.chance(chaos.read / 8));
        for (let n = 0; n < shown.length; n += 3) {
          point();
          if (random.chance(chaos.read)) throw new TransientError('The ERP is away.');
          yield shown.slice(n, n + 3);
        }
      },
    } as unknown as Session;
  }

  /** The ERP keeps the key of what it shows: what is told again changes nothing. */
  function tell(news: Acknowledgement): Outcome {
    tells += 1;
    const turn = tells;
    const take = () => {
      const before = shown.get(news.requisition);
      if (before?.idempotencyKey === news.idempotencyKey) return;
      if ((shownTurns.get(news.requisition) ?? 0) > turn)
        violations.push(`old news of ${news.requisition} came after newer ones`);
      told.push(news);
      shown.set(news.requisition, news);
      shownTurns.set(news.requisition, turn);
    };
    if (!log.includes(news.requisition)) violations.push(`there is no requisition ${news.requisition}`);
    if (!erp.has(news.requisition))
      return { status: 'rejected', error: { type: 'data', message: 'There is no such requisition.' } };
    if (refusesNews !== undefined) return { status: 'rejected', error: { type: 'data', message: refusesNews } };
    const end =
      nextNews ?? (random.chance(chaos.read) ? random.pick(['retry', 'lost', 'lost after', 'late'] as const) : 'done');
    nextNews = undefined;
    if (end === 'retry') return { status: 'retry', error: { type: 'transient', message: 'The ERP is away.' } };
    if (end === 'lost after' || end === 'done') take();
    if (end === 'late') arriving.push({ atMs: clock.nowMs() + random.whole(6_900, 7_900), submit: take });
    return end === 'done'
      ? { status: 'updated', reference: news.requisition }
      : { status: 'unknown', message: 'the connection broke' };
  }

  // --- The service ---
  const requisitionOf = ({ values }: Lot) => values.find(({ column }) => column === 'Requisition')?.value ?? '';

  function apply(job: Job) {
    const { body } = job;
    const fail = (message: string, path?: string) => {
      job.status = 'FAILED';
      job.errors = [{ message, ...(path === undefined ? {} : { path }) }];
    };
    const lots = (body['bid_sheet'] as { lots?: Lot[] } | undefined)?.lots ?? [];
    if (new Set(lots.map(({ name }) => name)).size !== lots.length) violations.push('two lots with one name');
    const bad = lots.findIndex(({ values }) => values.some(({ value }) => value === refusedItems.named));
    if (bad >= 0) return fail('this item is not allowed', `bid_sheet.lots[${bad}].values[0].value`);
    if (lots.some(({ values }) => values.some(({ value }) => value === refusedItems.nameless)))
      return fail('this event is not allowed');
    job.status = 'COMPLETED';
    if (job.type === 'CREATE_SOURCING_REQUEST') {
      job.entity = random.uuid();
      const reference = String(body['reference_id']);
      if ([...requests.values()].some((each) => each.reference === reference))
        violations.push(`${reference} made twice`);
      requests.set(job.entity, { id: job.entity, reference, madeMs: clock.nowMs() });
      return;
    }
    if (job.type === 'CREATE_SOURCING_EVENT') {
      job.entity = random.uuid();
      for (const requisition of new Set(lots.map(requisitionOf)))
        for (const other of events.values())
          if (other.status !== 'DELETED' && other.lots.some((lot) => requisitionOf(lot) === requisition))
            violations.push(`${requisition} is in two events`);
      events.set(job.entity, {
        id: job.entity,
        reference: String(body['reference_id']),
        madeMs: clock.nowMs(),
        name: String(body['name']),
        status: 'DRAFT',
        lots: structuredClone(lots),
        modifiedMs: clock.nowMs(),
        files: [],
      });
      return;
    }
    const event = events.get(String(body['sourcing_event']));
    if (!event) return fail('there is no such event');
    if (job.type === 'ATTACH_FILES_TO_SOURCING_EVENT') {
      for (const { file_name: name } of body['files'] as { file_name: string }[]) {
        if (event.files.includes(name)) violations.push(`${name} was attached twice`);
        event.files.push(name);
      }
      return;
    }
    if (event.status !== 'DRAFT') return fail('it is published');
    event.name = String(body['name']);
    event.lots = structuredClone(lots);
  }

  function submit(path: string, body: Record<string, unknown>, key: string): Job {
    const known = idempotent ? jobs.find((each) => each.key === key) : undefined;
    if (known) return known;
    const made: Job = {
      id: random.uuid(),
      key,
      type: pathTypes[path] ?? path,
      body: structuredClone(body),
      createdMs: clock.nowMs(),
      takesMs: chaos.post > 0 ? random.whole(0, 60_000) : 0,
      status: 'PENDING',
    };
    jobs.push(made);
    return made;
  }

  function tick() {
    for (const each of arriving.splice(0)) {
      if (each.atMs <= clock.nowMs()) each.submit();
      else arriving.push(each);
    }
    for (const job of jobs) if (job.status === 'PENDING' && job.createdMs + job.takesMs <= clock.nowMs()) apply(job);
  }

  const answerError = (status: number) =>
    new AnswerError(
      status,
      status === 429 ? 'too-many' : status >= 500 ? 'unavailable' : 'invalid',
      `answered ${status}`,
      {
        recovery: status === 429 ? { do: 'retry', afterMs: 30_000 } : { do: 'retry' },
      },
    );

  function post(path: string, body: Record<string, unknown>, key: string): unknown {
    const name = path.split('/').at(-1) ?? '';
    posts.push({ path: name, body });
    const about = events.get(String(body['sourcing_event']));
    if (name === 'update-sourcing-event' && about && about.status !== 'DRAFT')
      if (clock.nowMs() - about.modifiedMs > feedLagMs) violations.push('a published event is to be updated');
    const text = JSON.stringify(body);
    const hasHalfCharacter = /\\ud[89a-f]/.test(text);
    if (text.includes(`"${refusedItems.atOnce}"`) || hasHalfCharacter) throw answerError(400);
    const end = nextPost ?? (random.chance(chaos.post) ? random.pick(postEnds) : undefined);
    nextPost = undefined;
    if (end !== undefined)
      switch (end) {
        case '429':
        case '400':
          throw answerError(Number(end));
        case 'failed': {
          const job = submit(name, body, key);
          job.status = 'FAILED';
          job.errors = [{ message: 'not now' }];
          return { id: job.id };
        }
        case '500':
          throw answerError(500);
        case '500 after':
          submit(name, body, key);
          throw answerError(500);
        case 'reset':
        case 'reset after': {
          if (end === 'reset after') submit(name, body, key);
          const error = fetchErrorOf('reset', 'service');
          error.sent = true;
          throw error;
        }
        case 'late': {
          arriving.push({ atMs: clock.nowMs() + random.whole(0, 8_000), submit: () => void submit(name, body, key) });
          const error = fetchErrorOf('timeout', 'service');
          error.sent = true;
          throw error;
        }
        case 'no id':
          submit(name, body, key);
          return {};
      }
    const { id, type, status, createdMs } = submit(name, body, key);
    return { id, type, status, created: timestampFromMs(createdMs) };
  }

  const shownJob = (job: Job) => ({
    id: job.id,
    type: job.type,
    status: job.status,
    created: timestampFromMs(job.createdMs),
    ...(job.entity === undefined ? {} : { created_entity: job.entity }),
    ...(job.errors === undefined ? {} : { errors: job.errors }),
    ...(job.type.startsWith('ATTACH') && job.status === 'COMPLETED'
      ? {
          detail: {
            data: (job.body['files'] as { file_name: string }[]).map(({ file_name }) => ({ file_name })),
            errors: [],
          },
        }
      : {}),
  });

  function get(path: string): unknown {
    if (random.chance(chaos.get)) throw answerError(random.pick([429, 500, 503]));
    tick();
    const { pathname, searchParams } = new URL(path, 'http://service');
    if (pathname === '/api/feeds/sourcing-events') {
      const id = searchParams.get('id');
      const since = searchParams.get('modified_after');
      const data = [...events.values()]
        .filter((event) => event.modifiedMs + feedLagMs <= clock.nowMs())
        .filter(
          (event) => (id === null || event.id === id) && (since === null || timestampFromMs(event.modifiedMs) >= since),
        )
        .map(({ id: event, reference, status, madeMs }) => ({
          id: event,
          status,
          reference_id: reference,
          created: timestampFromMs(madeMs),
        }));
      return { data, next: null };
    }
    if (pathname === '/api/manage/sourcing_requests') {
      const result = [...requests.values()].map(({ id, reference, madeMs }) => ({
        uuid: id,
        reference_id: reference,
        created: timestampFromMs(madeMs),
      }));
      return { result, next: null };
    }
    const uuid = pathname.split('/')[3] ?? '';
    if (uuid === '') {
      if (!listsJobs) throw new AnswerError(404, 'not-found', 'answered 404');
      const page = Number(searchParams.get('page_number'));
      return {
        result: jobs
          .map(shownJob)
          .reverse()
          .slice((page - 1) * 100, page * 100),
      };
    }
    const found = jobs.find(({ id }) => id === uuid);
    if (!found) throw new AnswerError(404, 'not-found', 'answered 404');
    return shownJob(found);
  }

  // --- Processes ---
  let current: ReturnType<typeof startProcess> | undefined;

  function startProcess() {
    processNumber += 1;
    const id = processNumber;
    const point = () => {
      if (!dead.has(id) && random.chance(chaos.crash)) dead.add(id);
      if (dead.has(id)) throw new Died(`process ${id} is dead`);
    };
    const dying = dyingDatabase(database, point);
    const call = async (
      request: { method: string; path: string; body?: Record<string, unknown>; idempotencyKey?: string },
      schema: z.ZodType,
    ) => {
      point();
      const answered =
        request.method === 'POST'
          ? post(request.path, request.body ?? {}, request.idempotencyKey ?? '')
          : get(request.path);
      // Frozen: another process takes over, and this one goes on with its answer later.
      if (random.chance(chaos.crash * 4)) {
        frozen.add(id);
        current = startProcess();
        await current.run();
        frozen.delete(id);
      }
      point();
      return schema.parse(answered);
    };
    const isAlive = async (other: number) => !dead.has(other) && !frozen.has(other);
    const run = createIntakeRun({
      intake: intake as NonNullable<typeof intake>,
      source: source as NonNullable<typeof source>,
      reader: createErpReader(sessionOf(point), 'requisition', {
        pageMs: 60_000,
        redact: (text) => text,
        listsOpen: true,
      }),
      client: clientOf(call as never, clock),
      teller: createErpTeller(
        sessionOf(point),
        { capabilities: { acknowledges: true, batchMax: 2, timeoutMs: 5_000, lateEffectMs: 8_000 } as never },
        { redact: (text: string) => text, holdsSecret: () => false } as never,
      ),
      wantedOf: createWanted(intake as NonNullable<typeof intake>),
      wishOf: createWishOf(intake as NonNullable<typeof intake>, source),
      database: dying,
      clock,
      log: silentLogger,
      count: () => undefined,
      acquireLease: createLeases({ database: dying, liveness: { id, isAlive } }),
    });
    return {
      id,
      run: async () => {
        try {
          await run(new AbortController().signal);
        } catch (error) {
          if (!(error instanceof Died) && !dead.has(id)) throw error;
        }
      },
    };
  }

  return {
    clock,
    intake,
    source,
    erp,
    events,
    requests,
    jobs,
    posts,
    violations,
    save,
    /** Deletes a requisition in the ERP, without a trace. */
    forget: (key: string) => erp.delete(key),
    tick,
    requisitionOf,
    setChaos: (next: Chaos) => {
      chaos = next;
    },
    /** Decides how the next POST ends. */
    endNextPost: (end: NonNullable<typeof nextPost>) => {
      nextPost = end;
    },
    shown,
    told,
    /** With a text, the ERP refuses all news from now on. */
    refuseNews: (words: string | undefined) => {
      refusesNews = words;
    },
    /** The next news takes effect seconds after its call was cut off. */
    delayNextNews: () => {
      nextNews = 'late';
    },
    /** Another program has made an update of some event. */
    submitForeignUpdate: () => {
      submit('update-sourcing-event', {}, random.uuid()).status = 'COMPLETED';
    },
    setFeedLag: (ms: number) => {
      feedLagMs = ms;
    },
    publish: (event: HeldEvent, status: string) => {
      event.status = status;
      event.modifiedMs = clock.nowMs();
    },
    /** One turn of a live process. */
    run: async () => {
      if (!current || dead.has(current.id)) current = startProcess();
      await current.run();
    },
    kill: () => {
      if (current) dead.add(current.id);
    },
    /** Registers the intake, and empties what an earlier world has left. */
    prepare: async () => {
      await database.query(`delete from bridge.intakes; delete from bridge.mirror; delete from bridge.leases`);
      const secrets = { mac: () => Buffer.from('mac'), verifiesMac: () => true } as never;
      await registerIntakes(database, [intake], secrets, timestampNow(clock));
    },
  };
}

/** SQL: the lots of events, a row each, with the line that each is made of. */
export const lotRows = `(select m.event, m.erp_key, l.lot, l.line from bridge.intake_members m
  cross join json_to_recordset(m.made_lots::json) as l (lot text, line text)) lots`;
