/** Dead letters in groups, and the replay of one, of a group, or of all that match. */
import { z } from 'zod';
import { replayDocuments } from '#bridge/ledger/flows/control-flows.ts';
import { readRefusalGroups, replayDeadLetters } from '#bridge/ledger/flows/dead-letter-reasons.ts';
import { noteDocument } from '#bridge/operate/history/note-document.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import {
  actionCall,
  type ConsoleApiDeps,
  documentKind,
  documentPlace,
  flowName,
  flowsFor,
  oneOrMore,
  readCall,
  requireFlow,
} from './console-call.ts';

const groupsQuery = z.strictObject({ flow: oneOrMore(flowName), kind: oneOrMore(documentKind) });
const replayBody = z.strictObject({
  flows: z.array(flowName).min(1).max(100).optional(),
  kinds: z.array(documentKind).min(1).optional(),
  reason: z.string().max(10_000).optional(),
  /** How many the operator has seen and agreed to. */
  expected: z.int().min(1),
  title: z.string().trim().min(1).max(500),
});

export type DeadLettersAnswer = { groups: Awaited<ReturnType<typeof readRefusalGroups>> };

export const deadLettersCall = ({ database }: ConsoleApiDeps) =>
  readCall(
    '/api/dead-letters',
    groupsQuery,
    async ({ viewer, query }): Promise<DeadLettersAnswer> => ({
      groups: await readRefusalGroups(database, { flows: flowsFor(viewer, query.flow), kinds: query.kind }),
    }),
  );

export const replayDeadLettersCall = ({ database, clock, note }: ConsoleApiDeps) =>
  actionCall('/api/dead-letters/replay', replayBody, async ({ viewer, body }) => {
    const { flows, kinds, reason, expected, title } = body;
    const filter = { flows: flowsFor(viewer, flows), kinds, reason };
    await note(viewer, { what: 'documents.replay', object: null, details: { title, count: expected, ...filter } });
    await replayDeadLetters(database, filter, expected, timestampNow(clock));
  });

/** One document, dead letter or not. */
export const replayDocumentCall = ({ database, clock, note }: ConsoleApiDeps) =>
  actionCall('/api/document/replay', documentPlace, async ({ viewer, body: { flow, kind, key } }) => {
    requireFlow(viewer, flow);
    await note(viewer, { what: 'documents.replay', object: `flow ${flow}`, details: { kind, key } });
    const replayed = await replayDocuments(database, { flow, kinds: [kind], keys: [key] }, timestampNow(clock));
    if (replayed === 0)
      throw new AppError('not-found', 'The document does not exist any more, or its flow takes no such kind.');
    return { replayed };
  });

/** A note says nothing any more when both of its texts are empty. */
export const noteDocumentCall = ({ database, clock, note }: ConsoleApiDeps) =>
  actionCall(
    '/api/document/note',
    documentPlace.extend({ lookedAfterBy: noteText(100), decision: noteText(2_000) }),
    async ({ viewer, body: { lookedAfterBy, decision, ...place } }) => {
      const { flow, kind, key } = place;
      requireFlow(viewer, flow);
      const details = { kind, key, lookedAfterBy, decision };
      await note(viewer, { what: 'document.note', object: `flow ${flow}`, details });
      const noted = timestampNow(clock);
      await noteDocument(database, place, { lookedAfterBy, decision, notedBy: viewer.name, noted });
    },
  );

function noteText(charactersMax: number) {
  return z
    .string()
    .trim()
    .max(charactersMax)
    .transform((text) => (text === '' ? null : text));
}
