/**
 * The access to the console: decides for each request who makes it, refuses those that it knows nothing of, and serves the
 * login. It stands before every page and call of the console.
 *
 * - A session, by its cookie: begun by a password, by the OpenID provider, or by a link that the command line prints.
 *   Links count only while the console listens on this machine alone.
 * - `/status.json` and `/metrics` also take the bearer token `console_token`. Where none is set they answer to this
 *   machine, and to no other.
 */

import { createHash, timingSafeEqual } from 'node:crypto';
import express, { type ErrorRequestHandler, type Request, type RequestHandler, type Response } from 'express';
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { Application } from '#platform/http/application.ts';
import type { Logger } from '#platform/log.ts';
import type { Registry } from '#platform/metrics.ts';
import { commandLine } from '#platform/own-package.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { ownPaths } from '../api/own-paths.ts';
import { createCookies } from './cookies.ts';
import { linkPath, useLoginLink } from './login-links.ts';
import { loginStyle, loginStylePath, renderLoginPage, renderNotice } from './login-page.ts';
import { createLoginRecord } from './login-record.ts';
import { countAttempt, forgetAttempt, pruneLoginFailures } from './login-throttle.ts';
import { isFromThisMachine, isLoopback } from './loopback.ts';
import { backChannelPath, callbackPath, createOpenIdLogin, OpenIdRefusal, openIdLoginMs } from './openid-login.ts';
import { isPassword } from './passwords.ts';
import { isReading, refuseForgery } from './refuse-forgery.ts';
import { hasFactors, passesFactor } from './second-factor.ts';
import { answerSecurityText, securityTextPath } from './security-text.ts';
import { createSessionToken, hashSessionToken } from './session-tokens.ts';
import {
  beginSession,
  endProviderSessions,
  endSession,
  findSession,
  type LoggedInAccount,
  type LoginMethod,
  lifeOf,
  type ProviderSession,
  useCallback,
} from './sessions.ts';
import { findUser, hasUsers, noteLogin } from './users.ts';
import { operatorOf, type Viewer } from './viewer.ts';

export interface ConsoleAccessDeps {
  readonly settings: BridgeSettings;
  readonly database: Database;
  readonly secrets: SecretBox;
  readonly clock: Clock;
  readonly log: Logger;
  readonly registry: Registry;
}

export interface ConsoleAccess {
  /**
   * Adds the login and the check; call it before the console's own routes. Throws an AppError `invalid` when the console
   * listens where others reach it and no one could log in.
   */
  mount(application: Application): Promise<void>;
  /** For `/metrics`: throws `unauthorized` unless the request has the token, or comes from this machine and needs none. */
  guardMetrics(request: Request): void;
}

const knownBrowserMs = 180 * 24 * 60 * 60_000;
const strictTransportSeconds = 365 * 24 * 60 * 60;
const formContext = 'console.form';
const browserContext = 'console.browser';
/** Whoever has the token sees what `/status.json` shows, and nothing else. */
const tokenViewer: Viewer = { name: 'console_token', role: 'viewer', flows: 'all' };
/** Without a token every user of this machine gets it: states, times and counts, and no words of an ERP. */
const localViewer: Viewer = { name: 'this machine', role: 'viewer-without-prices', flows: 'all' };

export function createConsoleAccess(deps: ConsoleAccessDeps): ConsoleAccess {
  const { settings, database, secrets, clock, log } = deps;
  const { console_login: login, console_url: publicUrl } = settings;
  const isLocal = isLoopback(settings.console_host);
  const limits = { idleMs: login.idle_minutes * 60_000, lifeMs: login.hours * 3_600_000 };
  const cookies = createCookies(publicUrl);
  const record = createLoginRecord(deps);
  const openId =
    login.openid && publicUrl !== undefined
      ? createOpenIdLogin({
          settings: login.openid,
          consoleUrl: publicUrl,
          secrets,
          clock,
          useOnce: (state, endsMs) => useCallback(database, state, endsMs, clock),
        })
      : undefined;

  const statusViewer = settings.console_token === undefined ? localViewer : tokenViewer;
  const addressOf = (request: Request) => request.ip ?? request.socket.remoteAddress ?? null;

  function hasToken(request: Request): boolean {
    if (settings.console_token === undefined) return isLocal && isFromThisMachine(request);
    const [scheme = '', given = ''] = (request.headers.authorization ?? '').split(' ');
    return scheme.toLowerCase() === 'bearer' && isSame(given, settings.console_token);
  }

  async function sessionIn(request: Request) {
    const token = cookies.read(request, 'session');
    return token === undefined ? undefined : findSession(database, token, { clock, limits });
  }

  /** Ends the session that the browser had, begins another, and goes on. */
  async function logIn(
    request: Request,
    response: Response,
    viewer: Viewer,
    by: {
      method: LoginMethod;
      account?: LoggedInAccount;
      provider?: ProviderSession;
      details?: Readonly<Record<string, unknown>>;
    },
    next: string,
  ): Promise<void> {
    const earlier = cookies.read(request, 'session');
    const token = await database.transaction(async (tx) => {
      if (earlier !== undefined) await endSession(tx, earlier);
      const begun = await beginSession(tx, viewer, by, { clock, limits });
      if (begun === undefined) return undefined;
      await record.allowed(tx, { name: viewer.name, from: addressOf(request), ...by });
      return begun;
    });
    if (token === undefined) throw new AppError('unauthorized', 'This account was changed just now. Log in again.');
    cookies.set(request, response, 'session', token, lifeOf(by.method, limits));
    response.redirect(303, next);
  }

  async function showLogin(
    request: Request,
    response: Response,
    { status = 200, ...page }: { status?: number; message?: string; name?: string; next: string },
  ): Promise<void> {
    const known = cookies.read(request, 'form');
    const form = known ?? createSessionToken().token;
    if (known === undefined) cookies.set(request, response, 'form', form);
    const html = renderLoginPage({
      ...page,
      formToken: secrets.mac(Buffer.from(form), formContext).toString('base64url'),
      passwords: await hasUsers(database),
      codes: await hasFactors(database),
      openId: login.openid !== undefined,
      links: isLocal,
    });
    sendPage(response, status, html);
  }

  async function showWait(
    request: Request,
    response: Response,
    waitMs: number,
    page: { name?: string; next: string },
  ): Promise<void> {
    const seconds = Math.ceil(waitMs / 1000);
    response.setHeader('Retry-After', String(seconds));
    const message = `There were too many failed logins. Try again in ${seconds} s, or in a browser in which you were logged in before.`;
    await showLogin(request, response, { status: 429, message, ...page });
  }

  function refuseForgedForm(request: Request, given: string): void {
    const form = cookies.read(request, 'form');
    const isOwn =
      form !== undefined && secrets.verifiesMac(Buffer.from(given, 'base64url'), Buffer.from(form), formContext);
    if (!isOwn)
      throw new AppError('forbidden', 'The login page was open for too long, or cookies are off. Load it again.');
  }

  /** The id of a browser in which this account was logged in before, if its cookie says so. */
  function knownBrowser(request: Request, account: string): string | undefined {
    const [id = '', mac = ''] = (cookies.read(request, 'browser') ?? '').split('.');
    const isOwn = secrets.verifiesMac(Buffer.from(mac, 'base64url'), Buffer.from(`${id} ${account}`), browserContext);
    return isOwn ? hashSessionToken(id).toString('base64url') : undefined;
  }

  function rememberBrowser(request: Request, response: Response, account: string): void {
    const { token } = createSessionToken();
    const mac = secrets.mac(Buffer.from(`${token} ${account}`), browserContext).toString('base64url');
    cookies.set(request, response, 'browser', `${token}.${mac}`, knownBrowserMs);
  }

  const logInByPassword: RequestHandler = async (request, response) => {
    const body = (request.body ?? {}) as Readonly<Record<string, unknown>>;
    const text = (name: string) => (typeof body[name] === 'string' ? body[name] : '');
    const next = ownPath(text('next'));
    refuseForgedForm(request, text('form_token'));
    const name = text('name').trim().toLowerCase().slice(0, 128);
    const user = await findUser(database, name);
    const attempt = {
      account: name,
      accountExists: user !== undefined,
      address: request.ip,
      knownBrowser: knownBrowser(request, name),
    };
    const waitMs = await countAttempt(database, attempt, clock);
    if (waitMs > 0) {
      record.throttled('password');
      await showWait(request, response, waitMs, { name, next });
      return;
    }
    const isRight = await isPassword(text('password'), user?.passwordHash, request.ip ?? '');
    // Only who knows the password uses a code up.
    if (!isRight || !user || !(await passesFactor(database, user.name, text('code'), { secrets, clock }))) {
      await record.refused({ name, from: addressOf(request), method: 'password', why: 'wrong name, password or code' });
      const message = (await hasFactors(database))
        ? 'Name, password or code is wrong. A code counts once.'
        : 'Name or password is wrong.';
      await showLogin(request, response, { status: 401, message, name, next });
      return;
    }
    await forgetAttempt(database, attempt, clock);
    await pruneLoginFailures(database, clock);
    await noteLogin(database, user.name, clock);
    rememberBrowser(request, response, user.name);
    await logIn(request, response, user, { method: 'password', account: user }, next);
  };

  const logInByLink: RequestHandler<{ token: string }> = async (request, response) => {
    response.locals.route = `${linkPath}:token`;
    // A program that only looks ahead must not use the link up.
    const { method, headers } = request;
    if (method === 'HEAD' || headers['sec-purpose'] !== undefined || headers['purpose'] !== undefined) {
      response.status(503).end();
      return;
    }
    const used = isLocal && (await useAndLogIn(request, response));
    if (used) return;
    await record.refused({
      name: 'unknown',
      from: addressOf(request),
      method: 'link',
      why: 'unknown, used or expired',
    });
    const text = isLocal
      ? `This link was used before, or it has expired. Print another: ${commandLine} console link`
      : 'Links log in only where the console listens on this machine alone.';
    sendPage(response, 403, renderNotice('This link does not log in', text));
  };

  async function useAndLogIn(request: Request<{ token: string }>, response: Response): Promise<boolean> {
    const viewer = await database.transaction((tx) => useLoginLink(tx, request.params.token, clock));
    // Not the name alone, which an account of the console may have, too.
    if (viewer) await logIn(request, response, { ...viewer, name: `${viewer.name} (link)` }, { method: 'link' }, '/');
    return viewer !== undefined;
  }

  const goToOpenId: RequestHandler = async (request, response) => {
    response.locals.route = '/login/openid';
    const next = ownPath(request.query['next']);
    try {
      if (!openId) throw new AppError('not-found', 'No OpenID provider is set for this console.');
      const { url, cookie } = await openId.begin(next);
      cookies.set(request, response, 'openid', cookie, openIdLoginMs);
      response.redirect(303, url);
    } catch (error) {
      await showFailure(request, response, error, next);
    }
  };

  const comeFromOpenId: RequestHandler = async (request, response) => {
    response.locals.route = callbackPath;
    const attempt = { account: undefined, accountExists: false, address: request.ip, knownBrowser: undefined };
    const waitMs = await countAttempt(database, attempt, clock);
    if (waitMs > 0) {
      record.throttled('openid');
      await showWait(request, response, waitMs, { next: '/' });
      return;
    }
    try {
      if (!openId) throw new AppError('not-found', 'No OpenID provider is set for this console.');
      const query = request.originalUrl.slice(request.path.length);
      const { viewer, provider, next } = await openId.finish(query, cookies.read(request, 'openid'));
      cookies.clear(request, response, 'openid');
      await forgetAttempt(database, attempt, clock);
      const details = { subject: provider.subject, issuer: login.openid?.issuer };
      await logIn(request, response, viewer, { method: 'openid', provider, details }, ownPath(next));
    } catch (error) {
      cookies.clear(request, response, 'openid');
      const name = error instanceof OpenIdRefusal ? error.person : 'unknown';
      const why = error instanceof AppError ? error.code : 'internal';
      await record.refused({ name, from: addressOf(request), method: 'openid', why });
      await showFailure(request, response, error, '/');
    }
  };

  /** The provider itself asks; its token says which sessions end. */
  const endByProvider: RequestHandler = async (request, response) => {
    if (!openId) throw new AppError('not-found', 'No OpenID provider is set for this console.');
    const { logout_token: token } = (request.body ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof token !== 'string') throw new AppError('invalid', 'logout_token is missing.');
    const named = await openId.endedBy(token);
    await database.transaction(async (tx) => {
      for (const name of await endProviderSessions(tx, named))
        await record.ended(tx, { name, from: addressOf(request) });
    });
    response.setHeader('Cache-Control', 'no-store');
    response.status(200).end();
  };

  /** Shows what went wrong beside the ways to log in. */
  async function showFailure(request: Request, response: Response, error: unknown, next: string): Promise<void> {
    if (!(error instanceof AppError) || error.code === 'internal') throw error;
    if (error.cause !== undefined) log.warn({ err: error }, 'a login by OpenID failed');
    const statuses: Partial<Record<AppError['code'], number>> = { unavailable: 503, forbidden: 403, 'not-found': 404 };
    const status = statuses[error.code] ?? 401;
    await showLogin(request, response, { status, message: error.publicMessage, next });
  }

  const logOut: RequestHandler = async (request, response) => {
    response.locals.route = '/logout';
    const token = cookies.read(request, 'session');
    if (token !== undefined)
      await database.transaction(async (tx) => {
        const ended = await endSession(tx, token);
        if (ended) await record.ended(tx, { name: ended.name, from: addressOf(request) });
      });
    cookies.clear(request, response, 'session');
    response.redirect(303, '/login');
  };

  const check: RequestHandler = async (request, response, next) => {
    // The login page shows it, too.
    if (request.path === '/favicon.svg') return next();
    const found = await sessionIn(request);
    const viewer = found?.viewer ?? (request.path === '/status.json' && hasToken(request) ? statusViewer : undefined);
    if (viewer) {
      response.locals.viewer = viewer;
      if (found) response.locals.session = found.session;
      if (!isReading(request) && viewer.role !== 'operator' && !request.path.startsWith(ownPaths)) {
        await record.overstepped({ name: viewer.name, from: addressOf(request) }, `${request.method} ${request.path}`);
        operatorOf(response);
      }
      next();
    } else if (isPageView(request))
      response.redirect(303, `/login?next=${encodeURIComponent(ownPath(request.originalUrl))}`);
    else throw new AppError('unauthorized', 'You are not logged in, or your session has ended. Log in at /login.');
  };

  return {
    mount: async (application) => {
      const app = application.express;
      if (!settings.console_pages) {
        app.use(onlyStatus(hasToken, statusViewer));
        return;
      }
      if (!isLocal && !openId && !(await hasUsers(database))) throw noLogin(settings.console_host);
      app.use((request, response, next) => {
        response.setHeader('X-Content-Type-Options', 'nosniff');
        response.setHeader('Referrer-Policy', 'same-origin');
        response.setHeader('X-Frame-Options', 'DENY');
        // Browsers would keep it for every port of this machine.
        if (request.secure && request.hostname !== 'localhost')
          response.setHeader('Strict-Transport-Security', `max-age=${strictTransportSeconds}`);
        next();
      });
      app.use(refuseForgery({ forms: new Set(['/login', backChannelPath]) }));
      app.get(loginStylePath, (_request, response) => {
        response.locals.route = loginStylePath;
        response.setHeader('Cache-Control', 'max-age=3600');
        response.type('css').send(loginStyle);
      });
      if (settings.console_security_contact !== undefined)
        app.get(securityTextPath, answerSecurityText(settings.console_security_contact, clock));
      app.get('/login', async (request, response) => {
        response.locals.route = '/login';
        const next = ownPath(request.query['next']);
        if (await sessionIn(request)) response.redirect(303, next);
        else await showLogin(request, response, { next });
      });
      const form = express.urlencoded({ extended: false, limit: '8kb', parameterLimit: 10 });
      app.post('/login', routeOf('/login'), form, refuseUnreadable, logInByPassword);
      app.get(`${linkPath}:token`, logInByLink);
      app.get('/login/openid', goToOpenId);
      app.get(callbackPath, comeFromOpenId);
      app.post(backChannelPath, routeOf(backChannelPath), form, refuseUnreadable, endByProvider);
      app.post('/logout', logOut);
      app.use(check);
    },

    guardMetrics: (request) => {
      if (!hasToken(request)) throw needsToken(settings.console_token === undefined);
    },
  };
}

/** A process without the console: its port has nothing but what monitoring reads. */
function onlyStatus(hasToken: (request: Request) => boolean, viewer: Viewer): RequestHandler {
  return (request, response, next) => {
    if (request.path !== '/status.json')
      throw new AppError('not-found', 'This process shows no console (bridge.console_pages is false).');
    if (!hasToken(request)) throw needsToken(false);
    response.locals.viewer = viewer;
    next();
  };
}

function needsToken(isUnset: boolean): AppError {
  return new AppError(
    'unauthorized',
    isUnset
      ? 'Without bridge.console_token this answers only to requests of the machine itself, by the name localhost or its ' +
          'address there. Set the token, and send it as a bearer token.'
      : 'Send the token of bridge.console_token as a bearer token.',
  );
}

function noLogin(host: string): AppError {
  return new AppError(
    'invalid',
    `The console would listen on ${host} (bridge.console_host), where other machines reach it, and no one could log in. ` +
      `Add an account (${commandLine} console users add <name>), set bridge.console_login.openid, or set ` +
      'bridge.console_host to 127.0.0.1. A process that need not show the console has bridge.console_pages: false.',
  );
}

const refuseUnreadable: ErrorRequestHandler = (cause, _request, _response, next) => {
  next(new AppError('invalid', 'The form cannot be read. Load the login page again.', { cause }));
};

function routeOf(route: string): RequestHandler {
  return (_request, response, next) => {
    response.locals.route = route;
    next();
  };
}

function sendPage(response: Response, status: number, html: string): void {
  response.setHeader(
    'Content-Security-Policy',
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  );
  response.setHeader('Cache-Control', 'no-store');
  response.status(status).type('html').send(html);
}

/** A person who opens a page, as opposed to a script of one. */
function isPageView({ method, headers }: Request): boolean {
  const mode = headers['sec-fetch-mode'];
  return method === 'GET' && (mode === undefined ? /\btext\/html\b/.test(headers.accept ?? '') : mode === 'navigate');
}

/** The path and query of this console that the text names; `/` for everything else, so that no link leads elsewhere. */
function ownPath(text: unknown): string {
  const base = 'http://console.invalid';
  const url = typeof text === 'string' && text.length <= 2_000 ? URL.parse(text, base) : null;
  if (url?.origin !== base || /^\/(log(in|out)\b|\/)/.test(url.pathname)) return '/';
  return `${url.pathname}${url.search}`;
}

/** In constant time, whatever the lengths are. */
function isSame(one: string, other: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(one), hash(other));
}
