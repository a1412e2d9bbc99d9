/** Intakes, the way back: their state and backlog, what they would send, pause and resume, archives, dead letters. */
import { z } from 'zod';
import {
  linkIntakeRecord,
  pauseIntake,
  readIntakeDeadLetters,
  readIntakeNow,
  replayIntake,
  resumeIntake,
} from '#bridge/intake/control-intakes.ts';
import { readIntakeHistory } from '#bridge/intake/intake-history.ts';
import { changeText, planIntake } from '#bridge/intake/plan-intake.ts';
import { linkRequisition } from '#bridge/intake/requisitions/link-requisition.ts';
import { listRequisitions } from '#bridge/intake/requisitions/list-requisitions.ts';
import { planRequisitions } from '#bridge/intake/requisitions/plan-requisitions.ts';
import { createWishOf } from '#bridge/intake/requisitions/requisition-need.ts';
import { createWanted } from '#bridge/intake/wanted-supplier.ts';
import type { Condition } from '#bridge/operate/status/conditions.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { Viewer } from '../access/viewer.ts';
import { actionCall, type ConsoleApiDeps, noQuery, readCall, requireAllFlows } from './console-call.ts';
import { statusFor } from './read-overview.ts';
import { type ShownIntake, shownIntakes } from './shown-intakes.ts';

const deadLettersShown = 200;
const requisitionsShown = 200;
const entriesShown = 200;
const intakeName = z.string().min(1).max(100);
const intakeQuery = z.strictObject({ intake: intakeName });

export type IntakesAnswer = { intakes: ShownIntake[]; conditions: Condition[] };
export type IntakeAnswer = Awaited<ReturnType<typeof readIntake>>;
export type IntakePlanAnswer = Awaited<ReturnType<typeof plan>>;
export type RequisitionsAnswer = Awaited<ReturnType<typeof readRequisitions>>;
export type RequisitionAnswer = Awaited<ReturnType<typeof readRequisition>>;

async function readIntake(deps: ConsoleApiDeps, viewer: Viewer, name: string) {
  const settings = requireIntake(deps, viewer, name);
  const { intakes, conditions } = await statusFor(deps, viewer);
  const [intake] = shownIntakes(
    intakes.filter((each) => each.intake === name),
    deps.settings,
  );
  if (!intake) throw unknownIntake(name);
  const { owns, contacts } = settings;
  return {
    intake,
    conditions,
    settings: { owns, contacts },
    deadLetters: await readIntakeDeadLetters(deps.database, { intake: name, limit: deadLettersShown }),
  };
}

/** What the last comparison has found: the process of the role `intake` reads the ERP. */
async function plan(deps: ConsoleApiDeps, settings: IntakeSettings, asked: z.output<typeof planBody>) {
  const { database, clock } = deps;
  if (settings.stream === 'requisition') {
    const source = deps.settings.sources.find(({ name }) => name === settings.source);
    const wishOf = createWishOf(settings, source);
    const events = await planRequisitions(database, { intake: settings, wishOf }, asked.limit);
    return { changes: [], events };
  }
  const planned = { intake: settings, wantedOf: createWanted(settings), database, clock };
  const changes = await planIntake(planned, asked.limit, asked.archives ? ['archive'] : undefined);
  return {
    changes: changes.map(({ change, ...planned }) => ({ ...planned, text: changeText(change) })),
    events: [],
  };
}

/** An intake writes suppliers for every flow of its source: it is for viewers of all of them. */
function requireIntake({ settings }: ConsoleApiDeps, viewer: Viewer, name: string): IntakeSettings {
  requireAllFlows(viewer);
  const found = settings.intakes.find((each) => each.name === name);
  if (!found) throw unknownIntake(name);
  return found;
}

function unknownIntake(name: string): AppError {
  return new AppError('not-found', `The intake "${name}" is not configured in this process.`);
}

export const intakesCall = (deps: ConsoleApiDeps) =>
  readCall('/api/intakes', noQuery, async ({ viewer }): Promise<IntakesAnswer> => {
    const { intakes, conditions } = await statusFor(deps, viewer);
    return { intakes: shownIntakes(intakes, deps.settings), conditions };
  });

export const intakeCall = (deps: ConsoleApiDeps) =>
  readCall('/api/intake', intakeQuery, ({ viewer, query: { intake } }) => readIntake(deps, viewer, intake));

async function readRequisitions(
  deps: ConsoleApiDeps,
  viewer: Viewer,
  { intake, text }: { intake: string; text?: string | undefined },
) {
  requireIntake(deps, viewer, intake);
  const found = await listRequisitions(deps.database, { intake, text, limit: requisitionsShown + 1 });
  return { requisitions: found.slice(0, requisitionsShown), hasMore: found.length > requisitionsShown };
}

async function readRequisition(deps: ConsoleApiDeps, viewer: Viewer, { intake, key }: { intake: string; key: string }) {
  requireIntake(deps, viewer, intake);
  return { life: await readIntakeHistory(deps.database, { intake, erpKey: key, limit: entriesShown }) };
}

const searched = intakeQuery.extend({ text: z.string().trim().min(1).max(255).optional() });

/** The requisitions of an intake, those that changed last first. */
export const requisitionsCall = (deps: ConsoleApiDeps) =>
  readCall('/api/intake/requisitions', searched, ({ viewer, query }) => readRequisitions(deps, viewer, query));

/** The life of one, from the ERP to the purchase orders that name it. */
export const requisitionCall = (deps: ConsoleApiDeps) =>
  readCall('/api/intake/requisition', intakeQuery.extend({ key: z.string().min(1).max(255) }), ({ viewer, query }) =>
    readRequisition(deps, viewer, query),
  );

const planBody = intakeQuery.extend({
  /** Only suppliers that would be archived. */
  archives: z.boolean().default(false),
  limit: z.int().min(1).max(500).default(50),
});

/** Sends nothing, but learns which attributes the service knows: for operators. */
export const intakePlanCall = (deps: ConsoleApiDeps) =>
  actionCall('/api/intakes/plan', planBody, async ({ viewer, body }) =>
    plan(deps, requireIntake(deps, viewer, body.intake), body),
  );

export const pauseIntakeCall = (deps: ConsoleApiDeps) =>
  actionCall(
    '/api/intakes/pause',
    intakeQuery.extend({ reason: z.string().trim().min(1).max(500) }),
    async ({ viewer, body: { intake, reason } }) => {
      requireIntake(deps, viewer, intake);
      await deps.note(viewer, { what: 'intake.pause', object: `intake ${intake}`, details: { reason } });
      await pauseIntake(deps.database, intake, `${reason} (${viewer.name})`, timestampNow(deps.clock));
    },
  );

export const resumeIntakeCall = (deps: ConsoleApiDeps) =>
  actionCall(
    '/api/intakes/resume',
    intakeQuery.extend({ agreeToArchive: z.boolean().default(false) }),
    async ({ viewer, body: { intake, agreeToArchive } }) => {
      requireIntake(deps, viewer, intake);
      await deps.note(viewer, { what: 'intake.resume', object: `intake ${intake}`, details: { agreeToArchive } });
      await resumeIntake(deps.database, intake, { agreeToArchive }, timestampNow(deps.clock));
    },
  );

/** One dead letter, or all of the intake. */
export const replayIntakeCall = (deps: ConsoleApiDeps) =>
  actionCall(
    '/api/intakes/replay',
    intakeQuery.extend({ erpKey: z.string().min(1).max(2_000).optional() }),
    async ({ viewer, body: { intake, erpKey } }) => {
      requireIntake(deps, viewer, intake);
      const filter = { intake, dead: true, ...(erpKey === undefined ? {} : { keys: [erpKey] }) };
      await deps.note(viewer, { what: 'intake.replay', object: `intake ${intake}`, details: filter });
      return { replayed: await replayIntake(deps.database, filter, timestampNow(deps.clock)) };
    },
  );

/** Says which supplier, or event, of the service a record is: `key`, or without it a new one. */
export const linkIntakeCall = (deps: ConsoleApiDeps) =>
  actionCall(
    '/api/intakes/link',
    intakeQuery.extend({ erpKey: z.string().min(1).max(2_000), key: z.string().trim().min(1).max(255).optional() }),
    async ({ viewer, body: { intake, erpKey, key } }) => {
      const { prefix, stream } = requireIntake(deps, viewer, intake);
      if (stream === 'requisition') {
        await deps.note(viewer, {
          what: 'intake.link',
          object: `intake ${intake}`,
          details: { erpKey, key: key ?? null },
        });
        await linkRequisition(deps.database, { intake, erpKey, entity: key }, timestampNow(deps.clock));
        return;
      }
      const details = { erpKey, key: key ?? prefix + erpKey };
      await deps.note(viewer, { what: 'intake.link', object: `intake ${intake}`, details });
      await linkIntakeRecord(deps.database, { intake, erpKey, key, prefix }, timestampNow(deps.clock));
    },
  );

/** The process of the role `intake` reads the ERP at once. */
export const readIntakeCall = (deps: ConsoleApiDeps) =>
  actionCall('/api/intakes/read', intakeQuery, async ({ viewer, body: { intake } }) => {
    requireIntake(deps, viewer, intake);
    await deps.note(viewer, { what: 'intake.read', object: `intake ${intake}` });
    await readIntakeNow(deps.database, intake, timestampNow(deps.clock));
  });
