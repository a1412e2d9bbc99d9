/** The settings of an intake: what is read from an ERP for a source, and what the ERP is master of. */
import { z } from 'zod';
import { mappingRule } from '#bridge/documents/mapping-rule.ts';
import { readStreams } from '#connector/records.ts';
import { compileRecordField } from './record-mapping.ts';
import {
  eventMapping,
  faultsOfRequisitions,
  grouping,
  lotsMapping,
  makes,
  requestMapping,
} from './requisition-settings.ts';

const intakeName = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must be lower-case letters, digits and hyphens');

const oneOrMore = z.union([z.string(), z.array(z.string()).min(1)]);

/** What an ERP can be master of, besides contacts. */
export const ownedParts = ['name', 'fields', 'archived'] as const;

const supplierMapping = z
  .strictObject({
    fields: z
      .record(z.string().min(1), mappingRule)
      .describe("The service's attributes, each with a path into the ERP's record, or a rule"),
  })
  .superRefine(({ fields }, context) => {
    for (const [name, rule] of Object.entries(fields)) {
      const compiled = compileRecordField(name, rule);
      if ('fault' in compiled)
        context.addIssue({ code: 'custom', path: ['fields', name, ...compiled.at], message: compiled.fault });
    }
  });

const intakeMembers = z.strictObject({
  name: intakeName,
  source: intakeName.describe('The service that is written to: the name of one of the sources'),
  connector: z
    .string()
    .min(1)
    .describe("A connector that reads: a folder's name under connectors/, a path, or a package"),
  stream: z.enum(readStreams).default('supplier').describe('What is read'),
  poll_seconds: z.int().min(1).default(300).describe('How often the ERP is asked for changes'),
  full_hours: z
    .number()
    .min(0)
    .default(168)
    .describe('How often everything is read from the ERP again, to find what its changes did not show; 0: never'),
  owns: z
    .array(z.enum(ownedParts))
    .default([...ownedParts])
    .describe('What the ERP is master of; the intake never changes anything else of a supplier that exists'),
  contacts: z
    .enum(['add', 'replace', 'leave'])
    .default('add')
    .describe(
      "add: the ERP's contacts are added and renamed; replace: others are deleted, too; leave: none is touched",
    ),
  prefix: z
    .string()
    .max(100)
    .default('')
    .describe("Put before the ERP's number to make the external id: two ERPs may then use one number"),
  only: z
    .strictObject({
      fields: z
        .record(z.string().min(1), oneOrMore)
        .default({})
        .describe(
          'Suppliers whose fields in the ERP have this value, or one of these; of requisitions: their tags, and category',
        ),
      external_id: z
        .array(z.string().min(1))
        .min(1)
        .optional()
        .describe('Records whose number begins with one of these'),
    })
    .prefault({})
    .describe('Which records the intake takes; the others are left as they are'),
  match: z
    .array(z.string().regex(/^(name|email|fields\..+)$/, 'must be name, email, or fields.<attribute>'))
    .default([])
    .describe('How a supplier of the service is found besides by its external id; only a single match counts'),
  mapping: z
    .strictObject({
      supplier: supplierMapping.optional(),
      event: eventMapping.optional(),
      lots: lotsMapping.optional(),
      request: requestMapping.optional().describe('Of make: request at a source of the dialect public'),
    })
    .default({})
    .describe("How the service's attributes are made; without it the ERP's fields are sent under their own names"),
  make: z.enum(makes).optional().describe('Of requisitions: what each, or each group of them, becomes'),
  template: z.uuid().optional().describe('The template of make: event-from-template'),
  group: grouping.optional().describe('Which requisitions share an event; left out: each has its own'),
  acknowledge: z
    .boolean()
    .default(true)
    .describe('Of requisitions: whether the ERP is told what became of them, where its connector can'),
  archive: z
    .strictObject({
      most: z.int().min(0).default(20),
      share: z
        .number()
        .min(0)
        .max(1)
        .default(0.1)
        .describe('Of the suppliers, or of the open requisitions, of this intake'),
    })
    .prefault({})
    .describe(
      'More archivings in 24 hours than both bounds, or requisitions that the ERP has no more, pause the intake until a person has agreed',
    ),
  submission_max: z.int().min(1).max(100_000).default(1_000).describe('Suppliers in one submission at most'),
  settings: z.record(z.string(), z.unknown()).default({}).describe("The connector's own settings"),
});

export const intakeSettings = intakeMembers.superRefine((intake, context) => {
  const { stream, make, template, group, mapping } = intake;
  const foreign =
    stream === 'requisition'
      ? { 'mapping.supplier': mapping.supplier }
      : { make, template, group, ...ofEvents(mapping) };
  for (const [member, given] of Object.entries(foreign))
    if (given !== undefined)
      context.addIssue({ code: 'custom', path: member.split('.'), message: `does not go with stream: ${stream}` });
  if (stream === 'requisition')
    for (const { path, message } of faultsOfRequisitions({ make, template, group, mapping: definedOf(mapping) }))
      context.addIssue({ code: 'custom', path, message });
});

const ofEvents = ({ event, lots, request }: Mapping) => ({
  'mapping.event': event,
  'mapping.lots': lots,
  'mapping.request': request,
});
type Mapping = z.output<typeof intakeMembers>['mapping'];

const definedOf = ({ event, lots, request }: Mapping) => ({
  ...(event && { event }),
  ...(lots && { lots }),
  ...(request && { request }),
});

export type IntakeSettings = z.infer<typeof intakeSettings>;
