/**
 * A world for intakes: an ERP and a service in memory, both of which misbehave as a seed draws it, around the real worker
 * and a real database. A process dies at any await: each statement, transaction, page and request is a place where it
 * can. What the service is asked to do is applied by rules that were written from the API document, not by the code
 * under test.
 */

import type { z } from 'zod';
import { createErpReader } from '#bridge/intake/read-erp.ts';
import { registerIntakes } from '#bridge/intake/register-intakes.ts';
import { createWishOf } from '#bridge/intake/requisitions/requisition-need.ts';
import { createIntakeRun } from '#bridge/intake/run-intake.ts';
import { createWanted } from '#bridge/intake/wanted-supplier.ts';
import { createLeases } from '#bridge/ledger/leases/lease.ts';
import { storeResources } from '#bridge/mirror/store-resources.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings/settings.ts';
import { AnswerError } from '#client/read-answer.ts';
import type { Session } from '#connector/connector.ts';
import { TransientError } from '#connector/errors.ts';
import type { SupplierRecord } from '#connector/records.ts';
import type { SupplierChange } from '#contract/supplier.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { fetchErrorOf } from '#platform/guarded-fetch/fetch-error.ts';
import { silentLogger } from '#platform/log.ts';
import type { Random } from '../../simulation/random.ts';
import { settingsOf, type TestClock, testClock } from '../parts.ts';
import { clientOf } from './client-of.ts';

export interface HeldSupplier {
  name: string;
  fields: Record<string, string>;
  archived: boolean;
  contacts: { name: string; email: string }[];
}

/** What may go wrong, each with its probability; in the calm all are 0. */
export interface Chaos {
  readonly crash: number;
  /** A process dies with the answer to its request: the service has done it, and nothing of that is stored. */
  readonly answer: number;
  readonly post: number;
  readonly get: number;
  readonly read: number;
}

export const calm: Chaos = { crash: 0, answer: 0, post: 0, get: 0, read: 0 };

class Died extends Error {}

interface Submission {
  readonly uuid: string;
  readonly key: string;
  readonly suppliers: readonly SupplierChange[];
  /** It fails at some of its suppliers, for no reason of theirs. */
  readonly half: boolean;
  readonly receivedMs: number;
  /** It is processed so long after it came, at the earliest. */
  readonly takesMs: number;
  processedMs: number | undefined;
  errors: Record<string, string[]>;
  summary: { header: string; messages: string[] }[];
}

/** What the service refuses: as a whole submission (400), or as one supplier of it. */
const refusedName = 'Refused';
const brokenName = 'Broken';
/** What the service says of a supplier at which it has failed. */
export const failedAtSupplier = 'internal error, try again';

export type IntakeWorld = ReturnType<typeof createIntakeWorld>;

export function createIntakeWorld(options: {
  database: Database;
  random: Random;
  intake?: Record<string, unknown>;
  source?: Record<string, unknown>;
  /** Whether the service recognises idempotency keys. */
  idempotent?: boolean;
  attributes?: readonly string[];
}) {
  const { database, random, idempotent = true, attributes = ['City', 'Rev'] } = options;
  const clock: TestClock = testClock();
  const settings: BridgeSettings = {
    ...settingsOf({ timeout_seconds: 5, ...options.source }),
  };
  const [source] = settings.sources;
  if (!source) throw new Error('no source');
  const intake: IntakeSettings = intakeOf(options.intake);
  const erp = new Map<string, SupplierRecord>();
  /** The ERP's numbers, in the order of their changes' stamps. */
  const log: string[] = [];
  const held = new Map<string, HeldSupplier>();
  const submissions: Submission[] = [];
  const requests = { post: 0, get: 0, erp: 0 };
  const violations: string[] = [];
  /** The suppliers that were archived before a person agreed to it. */
  const archived = new Set<string>();
  let agreed = false;
  let chaos: Chaos = calm;
  let processNumber = 0;
  const dead = new Set<number>();

  // --- The ERP ---
  /** `late`: its stamp lies before records that were read already; only a read of everything shows it. */
  function saveErp(record: SupplierRecord, { late = 0 } = {}) {
    erp.set(record.external_id, record);
    log.splice(Math.max(0, log.length - late), 0, record.external_id);
  }
  const pageSize = 3;

  /** Repeats up to four changes that were read before, and mixes the order within a page. */
  function sessionOf(point: () => void): Session {
    return {
      check: async () => [],
      write: async () => [],
      lookup: async () => [],
      close: async () => undefined,
      async *read(_stream: string, checkpoint: string | undefined) {
        const repeated = random.chance(chaos.read) ? random.whole(0, 4) : 0;
        let after = Math.max(0, (checkpoint === undefined ? 0 : Number(checkpoint)) - repeated);
        const until = log.length;
        requests.erp += 1;
        while (after < until) {
          point();
          if (random.chance(chaos.read)) throw new TransientError('The ERP is away.');
          const page = log.slice(after, Math.min(until, after + pageSize));
          after = Math.min(until, after + pageSize);
          const keys = [...new Set(page)];
          if (random.chance(chaos.read)) keys.reverse();
          yield {
            records: keys.map((key) => structuredClone(erp.get(key) as SupplierRecord)),
            checkpoint: String(after),
          };
        }
      },
    } as unknown as Session;
  }

  // --- The service ---
  function apply(submission: Submission) {
    submission.processedMs = clock.nowMs();
    for (const change of submission.suppliers) {
      const { external_id: key } = change;
      const current = held.get(key);
      const errors = Object.keys(change.fields ?? {})
        .filter((name) => !attributes.includes(name))
        .map((name) => `there is no supplier attribute "${name}"`);
      if (change.name === refusedName) errors.push('this name is not allowed');
      if (!current && change.name === undefined) errors.push('a new supplier needs a name');
      if (submission.half && random.chance(0.5)) errors.push(failedAtSupplier);
      if (errors.length > 0) {
        submission.errors[key] = errors;
        submission.summary.push({ header: `Supplier ${key} not changed`, messages: errors });
        continue;
      }
      const next: HeldSupplier = structuredClone(current ?? { name: '', fields: {}, archived: false, contacts: [] });
      next.name = change.name ?? next.name;
      next.archived = change.archived ?? next.archived;
      Object.assign(next.fields, change.fields);
      for (const contact of change.contacts ?? []) {
        const at = next.contacts.findIndex(({ email }) => email.toLowerCase() === contact.email.toLowerCase());
        if (contact.delete === true) next.contacts = next.contacts.filter((_contact, index) => index !== at);
        else if (at >= 0) next.contacts[at] = { name: contact.name ?? '', email: next.contacts[at]?.email ?? '' };
        else next.contacts.push({ name: contact.name ?? '', email: contact.email });
      }
      checkRevision(key, current, next);
      if (change.archived === true) checkArchive(key);
      held.set(key, next);
      submission.summary.push({ header: `Supplier ${key} ${current ? 'updated' : 'created'}`, messages: [] });
    }
  }

  /** Each edit in the ERP raises `Rev`: an older state that is applied after a newer one shows here. */
  function checkRevision(key: string, before: HeldSupplier | undefined, next: HeldSupplier) {
    const [was, is] = [before?.fields['Rev'], next.fields['Rev']].map((rev) => Number(rev ?? 0));
    if ((is ?? 0) < (was ?? 0)) violations.push(`${key} went back from revision ${was} to ${is}`);
  }

  /** No more are archived than the settings allow without a person. */
  function checkArchive(key: string) {
    if (agreed) return;
    archived.add(key);
    if (archived.size > intake.archive.most) violations.push(`${archived.size} suppliers were archived unasked`);
  }

  const arriving: { atMs: number; submit: () => void }[] = [];

  function submit(suppliers: readonly SupplierChange[], key: string): Submission {
    const before = submissions.find((each) => each.key === key);
    if (before && idempotent) return before;
    const made: Submission = {
      uuid: random.uuid(),
      key,
      suppliers: structuredClone(suppliers),
      half: random.chance(chaos.post / 3),
      receivedMs: clock.nowMs(),
      takesMs: chaos.post > 0 ? random.whole(2_000, 90_000) : 2_000,
      processedMs: undefined,
      errors: {},
      summary: [],
    };
    submissions.push(made);
    return made;
  }

  /** Submissions are processed in their order, each some time after it came. */
  function tick() {
    for (const each of arriving.splice(0)) {
      if (each.atMs <= clock.nowMs()) each.submit();
      else arriving.push(each);
    }
    for (const submission of submissions) {
      if (submission.processedMs !== undefined) continue;
      if (submission.receivedMs + submission.takesMs > clock.nowMs()) break;
      apply(submission);
    }
  }

  const shown = (submission: Submission) => ({
    uuid: submission.uuid,
    current_state: submission.processedMs === undefined ? 'UNPROCESSED' : 'PROCESSED',
    last_changed: timestampFromMs(submission.processedMs ?? submission.receivedMs),
    state_errors: submission.errors,
    change_summary: submission.processedMs === undefined ? null : submission.summary,
    change_warnings: null,
  });

  const answerError = (status: number) =>
    new AnswerError(
      status,
      status === 429 ? 'too-many' : status >= 500 ? 'unavailable' : 'invalid',
      `answered ${status}`,
      {
        recovery: status === 429 ? { do: 'retry', afterMs: 30_000 } : { do: 'retry' },
      },
    );

  async function postOnce(suppliers: readonly SupplierChange[], key: string): Promise<unknown> {
    requests.post += 1;
    if (suppliers.length > intake.submission_max) violations.push(`${suppliers.length} suppliers in a submission`);
    const ids = suppliers.map(({ external_id: id }) => id);
    if (new Set(ids).size !== ids.length) violations.push('a supplier twice in a submission');
    if (ids.length === 0) violations.push('a submission without suppliers');
    if (suppliers.some(({ name }) => name === brokenName)) throw answerError(400);
    if (random.chance(chaos.post))
      switch (random.pick(['429', '500', '500 after', 'reset', 'reset after', 'late', 'late', 'no id'] as const)) {
        case '429':
          throw answerError(429);
        case '500':
          throw answerError(500);
        case '500 after':
          submit(suppliers, key);
          throw answerError(500);
        case 'reset':
        case 'reset after': {
          if (random.chance(0.5)) submit(suppliers, key);
          const error = fetchErrorOf('reset', 'service');
          error.sent = true;
          throw error;
        }
        case 'late': {
          // The connection broke, and the service works on it for some seconds more.
          arriving.push({ atMs: clock.nowMs() + random.whole(0, 8_000), submit: () => void submit(suppliers, key) });
          const error = fetchErrorOf('timeout', 'service');
          error.sent = true;
          throw error;
        }
        case 'no id':
          submit(suppliers, key);
          return { result: {} };
      }
    return { result: { uuid: submit(suppliers, key).uuid, url: 'x' } };
  }

  function answer(path: string): unknown {
    requests.get += 1;
    if (random.chance(chaos.get)) throw answerError(random.pick([429, 500, 503]));
    tick();
    const [plain = '', query] = path.split('?');
    const uuid = plain.split('/')[4] ?? '';
    if (query !== undefined) {
      const page = Number(new URLSearchParams(query).get('page_number'));
      return {
        result: submissions
          .map(shown)
          .reverse()
          .slice((page - 1) * 100, page * 100),
      };
    }
    const found = submissions.find((each) => each.uuid === uuid);
    if (!found) throw new AnswerError(404, 'not-found', 'answered 404');
    return { result: shown(found) };
  }

  // --- Processes ---
  let current: ReturnType<typeof startProcess> | undefined;

  function startProcess() {
    processNumber += 1;
    const id = processNumber;
    /** Dies here: nothing of this process happens any more. */
    const point = () => {
      if (!dead.has(id) && random.chance(chaos.crash)) dead.add(id);
      if (dead.has(id)) throw new Died(`process ${id} is dead`);
    };
    const dying = dyingDatabase(database, point);
    const liveness = { id, isAlive: async (other: number) => !dead.has(other) };
    const call = async (
      request: { method: string; path: string; body?: unknown; idempotencyKey?: string },
      schema: z.ZodType,
    ) => {
      point();
      const { suppliers } = (request.body as { change_data?: { suppliers: SupplierChange[] } } | undefined)
        ?.change_data ?? {
        suppliers: [],
      };
      const key = request.idempotencyKey ?? '';
      const answered = request.method === 'POST' ? await postOnce(suppliers, key) : answer(request.path);
      if (random.chance(chaos.answer)) dead.add(id);
      // Frozen: others take over, and this one goes on with its answer later.
      if (random.chance(chaos.crash * 4)) {
        frozen.add(id);
        for (let turns = random.whole(1, 4); turns > 0; turns -= 1) {
          current = startProcess();
          await current.run();
          clock.advance(random.pick([0, 1_000, 20_000]));
          tick();
        }
        frozen.delete(id);
      }
      point();
      return schema.parse(answered);
    };
    const run = createIntakeRun({
      intake,
      source: source as NonNullable<typeof source>,
      reader: createErpReader(sessionOf(point), 'supplier', { pageMs: 60_000, redact: (text) => text }),
      client: clientOf(call as never, clock),
      teller: undefined,
      wantedOf: createWanted(intake),
      wishOf: createWishOf(intake, source),
      database: dying,
      clock,
      log: silentLogger,
      count: () => undefined,
      acquireLease: createLeases({
        database: dying,
        liveness: { ...liveness, isAlive: async (other) => !dead.has(other) && !frozen.has(other) },
      }),
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
  const frozen = new Set<number>();

  return {
    clock,
    intake,
    source,
    erp,
    held,
    submissions,
    requests,
    violations,
    saveErp,
    tick,
    /** A person agrees to archive as many as there are, from now on. */
    agreeToArchive: () => {
      agreed = true;
    },
    setChaos: (next: Chaos) => {
      chaos = next;
    },
    /** One turn of a live process. */
    run: async () => {
      if (!current || dead.has(current.id)) current = startProcess();
      await current.run();
    },
    kill: () => {
      if (current) dead.add(current.id);
    },
    /** What the puller of the supplier list does. */
    pullList: async () => {
      const observed = timestampNow(clock);
      await database.transaction((tx) =>
        storeResources(tx, {
          source: 'main',
          kind: 'supplier-master',
          objects: [...held].map(([external_id, supplier]) => ({ external_id, ...structuredClone(supplier) })),
          observed,
          now: observed,
        }),
      );
      clock.advance(1);
      await database.query(
        `insert into bridge.supplier_lists (source, next_pull, last_pull) values ('main', $1, $1)
         on conflict (source) do update set last_pull = excluded.last_pull`,
        [timestampNow(clock)],
      );
    },
    isRefused: (record: SupplierRecord) => record.name === refusedName || record.name === brokenName,
    /** The ids that the bridge has noted are those of its own submissions. */
    checkNotes: async () => {
      const noted = await database.query<{ id: string; uuid: string }>(
        'select id::text, uuid from bridge.intake_submissions where uuid is not null',
      );
      for (const { id, uuid } of noted)
        if (submissions.find((each) => each.uuid === uuid)?.key !== id)
          violations.push(`the id of another submission is stored for ${id}`);
    },
  };
}

export const refusedNames = { bySupplier: refusedName, bySubmission: brokenName };

function intakeOf(given: Record<string, unknown> = {}): IntakeSettings {
  const settings = settingsWithIntake(given);
  const [made] = settings.intakes;
  if (!made) throw new Error('no intake');
  return made;
}

function settingsWithIntake(given: Record<string, unknown> = {}): BridgeSettings {
  return bridgeSettings.parse({
    sources: [{ name: 'main', base_url: 'http://127.0.0.1:1', api_key: 'key', quotas: { enabled: false } }],
    intakes: [{ name: 'vendors', source: 'main', connector: 'memory', ...given }],
  });
}

/** The database of a process that can die before and after each statement, and on either side of a commit. */
export function dyingDatabase(database: Database, point: () => void): Database {
  const sqlOf = (sql: Sql): Sql => ({
    query: async (statement, params) => {
      point();
      const rows = await sql.query(statement, params);
      point();
      return rows as never;
    },
  });
  return {
    ...database,
    ...sqlOf(database),
    session: (use) => database.session((session) => use(sqlOf(session))),
    transaction: async (work) => {
      point();
      const result = await database.transaction((tx) => work(sqlOf(tx)));
      point();
      return result;
    },
  };
}

/** Registers the intake, and empties what an earlier world has left. */
export async function prepareIntake(database: Database, world: IntakeWorld): Promise<void> {
  await database.query(
    `delete from bridge.intakes; delete from bridge.resources; delete from bridge.supplier_lists;
     delete from bridge.leases; delete from bridge.flows`,
  );
  const secrets = { mac: () => Buffer.from('mac'), verifiesMac: () => true } as never;
  await registerIntakes(database, [world.intake], secrets, timestampNow(world.clock));
}
