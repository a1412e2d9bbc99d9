/**
 * The type of what a program writes for a reader's schema: every member of the schema and no other. The schemas of
 * answers and records are loose, because a reader keeps what it does not know; the type of a writer must not be, or a
 * misspelt member would pass.
 */
import type { z } from 'zod';

export type Written<Schema extends z.ZodType> = KnownMembers<z.input<Schema>>;

type KnownMembers<Value> = Value extends readonly (infer Item)[]
  ? readonly KnownMembers<Item>[]
  : Value extends object
    ? { readonly [Name in keyof Value as string extends Name ? never : Name]: KnownMembers<Value[Name]> }
    : Value;
