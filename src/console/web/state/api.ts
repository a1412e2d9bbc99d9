/** Calls of the console's JSON API. */
import { signal } from '@preact/signals';

/** What the server answered instead of what was asked for, in its words. */
export class CallError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.name = 'CallError';
    this.status = status;
  }
}

/** The longest that a page waits for what it shows: a connection that hangs would keep an old answer on it for ever. */
const getMsMax = 60_000;

/** True once a call was refused because the session has ended. */
export const sessionEnded = signal(false);

/** Only a page of the console can send it: see refuse-forgery.ts. */
const consoleHeader = 'X-Console-Request';

/** Ends the session, and leads to the login. */
export async function logOut(): Promise<void> {
  await fetch('/logout', { method: 'POST', redirect: 'manual', headers: { [consoleHeader]: '1' } }).catch(
    () => undefined,
  );
  location.assign('/login');
}

export type Parameters = Readonly<Record<string, string | number | readonly string[] | null | undefined>>;

/** Writes a query, without parameters that are empty. */
export function queryText(parameters: Parameters): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === undefined || value === null || value === '') continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

export function get<Answer>(path: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<Answer> {
  const late = AbortSignal.timeout(getMsMax);
  return call<Answer>(`${path}${queryText(parameters)}`, { signal: signal ? AbortSignal.any([signal, late]) : late });
}

export function postCall<Answer>(path: string, body: object = {}): Promise<Answer> {
  const headers = { 'Content-Type': 'application/json', [consoleHeader]: '1' };
  return call<Answer>(path, { method: 'POST', headers, body: JSON.stringify(body) });
}

async function call<Answer>(url: string, init: RequestInit): Promise<Answer> {
  const response = await fetch(url, { ...init, credentials: 'same-origin' }).catch((error: unknown) => {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new CallError(0, 'The bridge does not answer. Does it run, and can this browser reach it?');
  });
  if (response.ok) {
    sessionEnded.value = false;
    return (await response.json()) as Answer;
  }
  if (response.status === 401) sessionEnded.value = true;
  const problem = (await response.json().catch(() => ({}))) as { detail?: string; title?: string };
  throw new CallError(response.status, problem.detail ?? problem.title ?? `The bridge answered ${response.status}.`);
}

export function failureText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
