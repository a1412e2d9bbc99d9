/**
 * RFI questions and the suppliers' answers. Source: API document, "SupplierQuestionResponse" and "RfiQuestion"; value
 * limits as published.
 */
import { z } from 'zod';
import { currencyCode } from './currency.ts';
import { decimal, text, timestamp, uuid } from './scalars.ts';

export const questionTypes = ['GATING', 'EVENT_GATING', 'MANDATORY', 'OPTIONAL'] as const;
export const inputTypes = ['TEXT', 'NUMBER', 'CURRENCY', 'SINGLE_CHOICE', 'MULTIPLE_CHOICE', 'DATE', 'FILE'] as const;

const option = z.strictObject({ value: text(50, 1), satisfies_gating: z.boolean().default(false) });

/** A question as the purchaser writes it. The domain checks what depends on other members or questions. */
export const question = z
  .strictObject({
    uuid: uuid.optional().describe('Given: that question, or a new one under this id. Left out: a new one.'),
    identifier: text(20, 1).describe('A label such as a dotted numbering; unique within the event.'),
    question_text: text(255, 1),
    description: text(20_000).optional(),
    question_type: z.enum(questionTypes).default('OPTIONAL'),
    input_type: z.enum(inputTypes),
    parent_question_uuid: uuid.optional().describe('A question of the same event, which may stand in the same list.'),
    categories: z.array(text(255, 1)).max(100).default([]),
    options: z.array(option).max(1_000).default([]),
    allow_comments: z.boolean().default(false),
    supporting_documents_enabled: z.boolean().default(false),
    currency: currencyCode.optional().describe('The default currency of a CURRENCY question.'),
    minimum_value: decimal.optional(),
    maximum_value: decimal.optional(),
    precision: z.int().min(0).max(10).optional().describe('Most decimals of a NUMBER or CURRENCY answer.'),
    attachment_file_uuids: z.array(uuid).max(50).default([]).describe('Files that the purchaser attached.'),
  })
  .meta({ id: 'Question' });

export type QuestionInput = z.infer<typeof question>;

/** All questions of an event in their order. */
export const questionList = z.array(question).max(5_000);

/** A supplier's answer to one question. The question's input type decides which members it may have. */
export const answer = z
  .strictObject({
    question_uuid: uuid,
    value: text(10_000).optional(),
    selected_options: z.array(text(50, 1)).max(1_000).optional().describe('The values of the chosen options.'),
    comment: text(255).optional(),
    currency: currencyCode.optional(),
    document_file_uuids: z.array(uuid).max(50).optional(),
  })
  .meta({ id: 'Answer' });

export type AnswerInput = z.infer<typeof answer>;

/** The record of the RFI responses feed as a client reads it. */
export const supplierQuestionResponse = z
  .looseObject({
    id: z.int(),
    sourcing_event: uuid,
    sourcing_request: uuid.optional(),
    supplier: uuid,
    question_uuid: uuid,
    value: z
      .string()
      .optional()
      .describe(
        'Text and numbers as they were written, a date as its day in UTC (`2030-12-31`), the chosen options joined ' +
          'by ", " in the question\'s order; none where files are the answer.',
      ),
    selected_options: z.array(z.looseObject({ value: z.string(), satisfies_gating: z.boolean() })).optional(),
    comment: z.string().optional(),
    currency: z
      .string()
      .optional()
      .describe("Of a CURRENCY answer: as given, else the question's, else the event's primary currency."),
    document_file_uuids: z
      .array(uuid)
      .optional()
      .describe('Empty where files were the answer and the last one was removed.'),
    modified: timestamp,
  })
  .meta({ id: 'SupplierQuestionResponse' });

/** A question as `include=questions` shows it. */
export const rfiQuestion = z
  .looseObject({
    id: uuid,
    sourcing_event: uuid,
    identifier: z.string(),
    question_text: z.string(),
    description: z.string().optional(),
    question_type: z.string(),
    input_type: z.string(),
    parent_question_uuid: uuid.optional(),
    categories: z.array(z.string()),
    options: z.array(z.looseObject({ value: z.string(), satisfies_gating: z.boolean() })),
    allow_comments: z.boolean(),
    supporting_documents_enabled: z.boolean(),
    currency: z.string().optional(),
    minimum_value: z.string().optional(),
    maximum_value: z.string().optional(),
    precision: z.int().optional(),
    attachment_file_uuids: z.array(uuid),
    modified: timestamp,
  })
  .meta({ id: 'RfiQuestion' });

/** The answer when the questions were replaced: all of them in their order. */
export const questionsResult = z.array(rfiQuestion);
