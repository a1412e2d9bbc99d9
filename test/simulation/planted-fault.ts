/** A change of a line in the bridge that a simulation must find. */
export interface PlantedFault {
  readonly name: string;
  /** The module, from `src/bridge` on. */
  readonly file: string;
  /** Stands once in the module. */
  readonly from: string;
  readonly to: string;
  /** Whose simulation has to find it; without it, that of the whole bridge. */
  readonly by?: 'intakes' | 'reading';
}
