/** Random numbers by a seed of text: the same seed yields the same numbers on every machine. Not for secrets. */
import { createRandom } from '../simulator/random.ts';
import { type Fraction, textHash } from './hostile-versions.ts';

export function seededFraction(seed: string): Fraction {
  const random = createRandom(textHash(seed));
  return () => random.next();
}
