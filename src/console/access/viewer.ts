/**
 * Who looks at the console, and what that person may see and do. The access check puts the viewer on every request that
 * it lets through; pages and JSON calls read it here and nowhere else.
 */
import type { Response } from 'express';
import { AppError } from '#platform/errors.ts';

/** An operator changes things; the two others only see, and one of them sees no prices. */
export const viewerRoles = ['viewer', 'viewer-without-prices', 'operator'] as const;
export type ViewerRole = (typeof viewerRoles)[number];

export interface Viewer {
  /** The name in the audit log: of an account, of the person at the OpenID provider, or of the user of this machine. */
  readonly name: string;
  readonly role: ViewerRole;
  /** The names of the flows that may be seen and operated. */
  readonly flows: 'all' | readonly string[];
}

/** The session of a request. */
export interface OwnSession {
  /** For the lists of a person; no one can log in with it. */
  readonly id: string;
  /** The account whose password began it. */
  readonly account: string | undefined;
}

declare module 'express-serve-static-core' {
  interface Locals {
    /** Set by the access check alone; read it by `viewerOf`. */
    viewer?: Viewer;
    /** Where a session lets the viewer in. */
    session?: OwnSession;
  }
}

/** Returns who asks. Throws `unauthorized` for a request that has not passed the access check. */
export function viewerOf({ locals }: Pick<Response, 'locals'>): Viewer {
  if (locals.viewer) return locals.viewer;
  throw new AppError('unauthorized', 'You are not logged in, or your session has ended. Log in again.');
}

/** Returns who asks, for an action that changes something. Throws `forbidden` for another role. */
export function operatorOf(response: Pick<Response, 'locals'>): Viewer {
  const viewer = viewerOf(response);
  if (viewer.role === 'operator') return viewer;
  throw new AppError('forbidden', `Your role is ${viewer.role}: only an operator may do this.`);
}

export function maySeePrices({ role }: Pick<Viewer, 'role'>): boolean {
  return role !== 'viewer-without-prices';
}

export function maySeeFlow({ flows }: Pick<Viewer, 'flows'>, flow: string): boolean {
  return flows === 'all' || flows.includes(flow);
}
