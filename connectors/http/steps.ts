/**
 * Writes a document by the steps of its kind, one after another. Example: `create` of an award in a target that has
 * events with states.
 *
 *     step 1 "draft"    PUT  /events/E1/state {state: draft}
 *     step 2 "bidder"   POST /events/E1/bidders       find: its bidders with the supplier's number; captures the id
 *     step 3 "publish"  POST /events/E1/publish       find: the event, where state is published
 *
 * Nothing is remembered between two attempts. An attempt that ended in the middle is made again from the first step: what
 * `find` shows as done is left out, and a PUT or DELETE leaves the second time what it left the first time. A single
 * request is a list of one step: the kind's lookup, which the bridge asks, is its `find`.
 */
import {
  type Clock,
  ConnectorError,
  type DocumentKind,
  type Http,
  type HttpRequest,
  type HttpResponse,
  type Operation,
  type Roots,
  TransientError,
} from 'sourcing-bridge/connector';
import { compileExpected, compileRules, type RuledRequest, type Written } from './answers.ts';
import { stepsOf } from './kinds.ts';
import { compileCapture, compileFindDone } from './lookup.ts';
import { type CompiledRequest, compileRequest, scopeOf } from './requests.ts';
import type { ActionSettings, StepSettings } from './settings.ts';
import { at, type Captured, rootsOf, type Scope, valueTemplate } from './templates.ts';

interface CompiledStep extends ReturnType<typeof compileStep> {
  readonly number: number;
  /** `step 2 "bidder"`; undefined for a request that is not in a list. */
  readonly label: string | undefined;
}

export type CompiledSteps = readonly CompiledStep[];

/** Compiles the requests of an action. Throws PlacedFault. */
export function compileSteps(
  kind: DocumentKind,
  given: ActionSettings | undefined,
  idempotencyHeader: string | undefined,
): CompiledSteps {
  const known: string[] = [];
  return stepsOf(given).map((step, index) => {
    const roots = rootsOf(kind, known);
    known.push(...Object.keys(step.capture ?? {}));
    const compile = () => compileStep(step, roots, compileRequest(kind, step, { roots, idempotencyHeader }));
    const compiled = Array.isArray(given) ? at(index, compile) : compile();
    const number = index + 1;
    return { ...compiled, number, label: step.name === undefined ? undefined : `step ${number} "${step.name}"` };
  });
}

function compileStep(settings: StepSettings, roots: Roots, request: CompiledRequest) {
  const { when = {}, find, capture = {}, answers = [] } = settings;
  const capturing = at('capture', () => compileCapture(capture));
  const conditions = Object.entries(when).map(([path, expected]) =>
    at('when', () => at(path, () => ({ read: valueTemplate(roots, path), matches: compileExpected(expected) }))),
  );
  return {
    settings,
    request,
    needsReference: /\{\s*reference[\s}]/.test(JSON.stringify(settings)),
    when: (scope: Scope) => conditions.every(({ read, matches }) => matches(read(scope))),
    find: find && at('find', () => compileFindDone(roots, find, capture)),
    rules: at('answers', () => compileRules(answers)),
    // 202 says that the ERP carries the request out later.
    captureOf: (response: HttpResponse) =>
      capturing(response.jsonIfAny, `the answer ${response.status} of the ERP`, response.status !== 202),
  };
}

export interface Walk {
  readonly http: Http;
  readonly clock: Clock;
  readonly operation: Operation;
  readonly signal: AbortSignal;
  /** Sends the request of a step. */
  readonly send: (request: HttpRequest) => Promise<HttpResponse>;
  /** How long what was sent may be missing from a `find`. */
  readonly visibleMs: number;
}

/**
 * Sends the steps that are not done. What has been sent is visible to a `find` when this ends, unless the outcome is
 * unknown. Throws ConnectorErrors that name the step, and are `partial` when an earlier step is done.
 */
export async function walkSteps(steps: CompiledSteps, walk: Walk): Promise<Written> {
  const { http, clock, operation, signal } = walk;
  const hasFind = steps.some(({ find }) => find !== undefined);
  let visibleFromMs = 0;
  let captured: Captured = {};
  let response: HttpResponse | undefined;
  let isBegun = false;

  const untilVisible = async (label: string | undefined): Promise<void> => {
    const leftMs = visibleFromMs - clock.nowMs();
    if (leftMs <= 0) return;
    const stopped = new TransientError('stopped before what was sent was visible');
    await clock.sleep(leftMs, signal).catch(() => Promise.reject(named(stopped, label, isBegun)));
  };

  for (const step of steps) {
    const { label, request, find, rules } = step;
    const scope = scopeOfStep(step, operation, captured);
    response = undefined;
    // A cancellation after a create that ended in the middle: no object has a reference yet.
    const hasNoObject = step.needsReference && operation.action === 'cancel' && !operation.reference;
    if (hasNoObject || !step.when(scope)) continue;
    if (find) await untilVisible(label);
    try {
      let found = await find?.(http, scope, signal);
      if (!found) {
        const made = await request.make(scope, operation, signal);
        const ruled: RuledRequest = rules.length > 0 ? { ...made, rules } : made;
        response = await walk.send(ruled);
        if (hasFind) visibleFromMs = clock.nowMs() + walk.visibleMs;
        found = step.captureOf(response);
      }
      captured = { ...captured, ...found };
      isBegun = true;
    } catch (error) {
      await untilVisible(label);
      throw named(error, label, isBegun);
    }
  }
  await untilVisible(steps.at(-1)?.label);
  return { response, captured };
}

/** The error with the step before its words. */
function named(error: unknown, label: string | undefined, isBegun: boolean): unknown {
  if (!(error instanceof ConnectorError) || label === undefined) return error;
  error.message = `${label}: ${error.message}`;
  error.partial = isBegun;
  return error;
}

function scopeOfStep({ label, number }: CompiledStep, operation: Operation, captured: Captured): Scope {
  const { idempotencyKey } = operation;
  // Each step is another request: the ERP must not take one for the repetition of another.
  const key = label === undefined ? idempotencyKey : `${idempotencyKey}-${number}`;
  return { ...scopeOf({ ...operation, idempotencyKey: key }), captured };
}

/** What the steps would send, in words, as far as it is known before; one that cannot be sent says why. */
export function describeSteps(steps: CompiledSteps, operation: Operation): string[] {
  let captured: Captured = {};
  return steps.flatMap((step) => {
    const { label, settings, request } = step;
    const scope = scopeOfStep(step, operation, captured);
    const { when = {}, find, capture = {} } = settings;
    captured = { ...captured, ...Object.fromEntries(Object.keys(capture).map((name) => [name, `captured.${name}`])) };
    const isKnown = !Object.keys(when).some((path) => path.startsWith('captured'));
    if (isKnown && !step.when(scope)) return [];
    const unless = find ? `, unless ${find.method} ${find.path} shows that it is done` : '';
    const condition = isKnown ? '' : `, when ${JSON.stringify(when)}`;
    try {
      const { line, content } = request.describe(scope);
      const members = typeof content === 'object' && content !== null ? Object.entries(content) : [];
      return [
        `${label === undefined ? '' : `${label}: `}${line}${condition}${unless}`,
        ...members.map(([name, value]) => `${name}: ${shown(value)}`),
      ];
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error;
      return [`It cannot be sent: ${(named(error, label, false) as Error).message}`];
    }
  });
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
