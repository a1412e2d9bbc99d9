/** Random numbers with a seed: the same seed and the same calls return the same numbers, on every machine. */

export interface Random {
  /** From 0 up to, but not including, 1. */
  readonly fraction: () => number;
  /** A whole number from `least` to `most`, both included. */
  whole(least: number, most: number): number;
  chance(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
  uuid(): string;
  /** A generator of its own for a part: its calls do not change the numbers of other parts. */
  of(part: string): Random;
}

export function createRandom(seed: string): Random {
  const next = generatorOf(hashesOf(seed));
  const whole = (least: number, most: number) => least + Math.floor(next() * (most - least + 1));
  return {
    fraction: next,
    whole,
    chance: (probability) => next() < probability,
    pick: (list) => {
      const picked = list[whole(0, list.length - 1)];
      if (picked === undefined) throw new Error('The list to pick from is empty.');
      return picked;
    },
    uuid: () => {
      const hex = Array.from({ length: 4 }, () => whole(0, 0xff_ff_ff_ff).toString(16).padStart(8, '0')).join('');
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
    },
    of: (part) => createRandom(`${seed}/${part}`),
  };
}

/** Four different FNV-1a hashes of the text. */
function hashesOf(text: string): [number, number, number, number] {
  const hash = (offset: number) => {
    let value = offset;
    for (let index = 0; index < text.length; index += 1)
      value = Math.imul(value ^ text.charCodeAt(index), 0x01_00_01_93);
    return value >>> 0;
  };
  return [hash(0x81_1c_9d_c5), hash(0x9e_37_79_b9), hash(0x85_eb_ca_6b), hash(0xc2_b2_ae_35)];
}

/** The generator sfc32. */
function generatorOf([one, two, three, four]: [number, number, number, number]): () => number {
  let [a, b, c, counter] = [one, two, three, four];
  const next = () => {
    const mixed = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + mixed) | 0;
    return (mixed >>> 0) / 4_294_967_296;
  };
  for (let warm = 0; warm < 12; warm += 1) next();
  return next;
}
