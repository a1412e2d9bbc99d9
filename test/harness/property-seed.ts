/** Property tests try the same cases in every run and on every machine; `PROPERTY_SEED` selects others. */
import * as fc from 'fast-check';

fc.configureGlobal({ seed: Number(process.env['PROPERTY_SEED'] ?? 1) });
