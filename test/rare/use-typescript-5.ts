/**
 * For the generators of clients, which build their output with the compiler of TypeScript 5: TypeScript 7 has no such
 * library. `node --import` this file, and their `typescript` is the package `typescript-5`.
 */
import { registerHooks } from 'node:module';

registerHooks({
  resolve: (specifier, context, next) => next(specifier === 'typescript' ? 'typescript-5' : specifier, context),
});
