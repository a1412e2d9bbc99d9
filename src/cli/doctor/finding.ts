/** One line of `bridge doctor`. */
export interface DoctorFinding {
  /** What was examined: `database`, `source main: clock`. */
  readonly name: string;
  readonly level: 'ok' | 'warn' | 'fail';
  /** What was found, in one sentence. */
  readonly message: string;
  /** What to do about it; only for `warn` and `fail`. */
  readonly todo?: string;
}

export const ok = (name: string, message: string): DoctorFinding => ({ name, level: 'ok', message });
export const warn = (name: string, message: string, todo: string): DoctorFinding => ({
  name,
  level: 'warn',
  message,
  todo,
});
export const fail = (name: string, message: string, todo: string): DoctorFinding => ({
  name,
  level: 'fail',
  message,
  todo,
});
