/** Property tests try the same cases in every run, so that what passed once passes anywhere. `PROPERTY_SEED`: others. */
import * as fc from 'fast-check';

fc.configureGlobal({ seed: Number(process.env['PROPERTY_SEED'] ?? 1) });
