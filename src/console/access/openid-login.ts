/**
 * Login by an OpenID provider (authorisation code with PKCE, OpenID Connect Core 1.0), through openid-client, and the
 * provider's word that a session has ended (OpenID Connect Back-Channel Logout 1.0). The signatures of its tokens are
 * checked by its published keys. What a
 * login needs between going to the provider and coming back is sealed into a cookie: no visitor makes anything grow here.
 * The provider is asked for its metadata at the first login, so a provider that is away does not delay the start.
 */
import { createHash } from 'node:crypto';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import * as openid from 'openid-client';
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { SecretBox } from '#platform/secrets.ts';
import type { ProviderSession } from './sessions.ts';
import type { Viewer } from './viewer.ts';

export type OpenIdSettings = NonNullable<BridgeSettings['console_login']['openid']>;

export const callbackPath = '/login/openid/callback';
/** Where the provider says that a session has ended. */
export const backChannelPath = '/login/openid/logout';

/** How long a person may take at the provider. */
export const openIdLoginMs = 15 * 60_000;
const timeoutSeconds = 10;
/** How openid-client names an answer that did not come, or is no answer of a provider at work. */
const awayCodes = new Set([
  'OAUTH_TIMEOUT',
  'OAUTH_ABORT',
  'OAUTH_RESPONSE_IS_NOT_CONFORM',
  'OAUTH_RESPONSE_IS_NOT_JSON',
]);
const sealContext = 'console.openid';
const logoutEvent = 'http://schemas.openid.net/event/backchannel-logout';
/** How long a provider may take to say that a session has ended. */
const logoutAge = '5 minutes';
/** Of a name in the audit log. */
const nameCharactersMax = 64;
const subjectCharactersMax = 64;

interface LoginUnderWay {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly next: string;
  readonly endsMs: number;
}

export interface OpenIdLogin {
  /** Returns where to send the browser, and the value of its cookie. Throws `unavailable`. */
  begin(next: string): Promise<{ url: string; cookie: string }>;
  /**
   * Checks the answer of the provider, which is the query of the request. Throws `unavailable` when the provider does not
   * answer, `unauthorized` for an answer that does not belong to this browser's login, was used before or is not genuine,
   * and `OpenIdRefusal` for a person whom no role fits.
   */
  finish(
    query: string,
    cookie: string | undefined,
  ): Promise<{ viewer: Viewer; provider: ProviderSession; next: string }>;
  /** Returns which session the provider ends with this token. Throws `invalid` for one that is not genuine. */
  endedBy(token: string): Promise<{ subject: string | undefined; sid: string | undefined }>;
}

/** The provider knows the person, and the settings have no role for that person. */
export class OpenIdRefusal extends AppError {
  readonly person: string;
  constructor(person: string) {
    super('forbidden', `No role at this console is set for ${person}. Ask its operator for one.`);
    this.name = 'OpenIdRefusal';
    this.person = person;
  }
}

export function createOpenIdLogin({
  settings,
  consoleUrl,
  secrets,
  clock,
  useOnce,
}: {
  settings: OpenIdSettings;
  consoleUrl: string;
  secrets: SecretBox;
  clock: Clock;
  /** Returns whether the login of this state was not finished before. */
  useOnce: (state: string, endsMs: number) => Promise<boolean>;
}): OpenIdLogin {
  const redirectUrl = `${consoleUrl}${callbackPath}`;
  let provider: Promise<openid.Configuration> | undefined;
  let keySet: ReturnType<typeof createRemoteJWKSet> | undefined;

  /** A failed discovery is not kept. */
  function discover(): Promise<openid.Configuration> {
    provider ??= openid
      .discovery(
        new URL(settings.issuer),
        settings.client_id,
        settings.client_secret,
        settings.client_secret === undefined ? openid.None() : undefined,
        {
          timeout: timeoutSeconds,
          execute: [
            openid.enableNonRepudiationChecks,
            ...(settings.issuer.startsWith('http:') ? [openid.allowInsecureRequests] : []),
          ],
        },
      )
      .catch((cause: unknown) => {
        provider = undefined;
        throw away(cause);
      });
    return provider;
  }

  function openCookie(cookie: string | undefined): LoginUnderWay {
    try {
      const opened = JSON.parse(secrets.open(Buffer.from(cookie ?? '', 'base64url'), sealContext)) as LoginUnderWay;
      if (opened.endsMs > clock.nowMs()) return opened;
    } catch {
      // A cookie of another console, or none.
    }
    throw new AppError('unauthorized', 'This login was not begun in this browser, or too long ago. Begin it again.');
  }

  return {
    begin: async (next) => {
      const found = await discover();
      const underWay: LoginUnderWay = {
        state: openid.randomState(),
        nonce: openid.randomNonce(),
        verifier: openid.randomPKCECodeVerifier(),
        next,
        endsMs: clock.nowMs() + openIdLoginMs,
      };
      const url = openid.buildAuthorizationUrl(found, {
        redirect_uri: redirectUrl,
        scope: settings.scope,
        state: underWay.state,
        nonce: underWay.nonce,
        code_challenge: await openid.calculatePKCECodeChallenge(underWay.verifier),
        code_challenge_method: 'S256',
      });
      return { url: url.href, cookie: secrets.seal(JSON.stringify(underWay), sealContext).toString('base64url') };
    },

    finish: async (query, cookie) => {
      const underWay = openCookie(cookie);
      if (!(await useOnce(underWay.state, underWay.endsMs)))
        throw new AppError('unauthorized', 'This login was finished before. Begin it again.');
      const found = await discover();
      const claims = await openid
        .authorizationCodeGrant(found, new URL(`${redirectUrl}${query}`), {
          expectedState: underWay.state,
          expectedNonce: underWay.nonce,
          pkceCodeVerifier: underWay.verifier,
          idTokenExpected: true,
        })
        .then((tokens) => allClaims(found, settings, tokens))
        .catch((cause: unknown) => {
          throw refusalOf(cause);
        });
      const name = nameOf(claims, settings);
      const role = settings.roles.find(({ claim, value }) => holds(claimOf(claims, claim), value));
      if (!role) throw new OpenIdRefusal(name);
      return {
        viewer: { name, role: role.role, flows: role.flows ?? 'all' },
        provider: { subject: subjectOf(claims), sid: typeof claims['sid'] === 'string' ? claims['sid'] : undefined },
        next: underWay.next,
      };
    },

    endedBy: async (token) => {
      const { jwks_uri: keys, issuer } = (await discover()).serverMetadata();
      if (keys === undefined) throw new AppError('invalid', 'The provider publishes no keys.');
      keySet ??= createRemoteJWKSet(new URL(keys));
      const expected = {
        issuer,
        audience: settings.client_id,
        maxTokenAge: logoutAge,
        currentDate: new Date(clock.nowMs()),
      };
      const { payload } = await jwtVerify(token, keySet, expected).catch((cause: unknown) => {
        throw new AppError('invalid', 'The logout token is not genuine.', { cause });
      });
      const { sub: subject, sid, events, nonce } = payload;
      const isLogout = typeof events === 'object' && events !== null && logoutEvent in events;
      const named = { subject, sid: typeof sid === 'string' ? sid : undefined };
      if (isLogout && nonce === undefined && (named.subject !== undefined || named.sid !== undefined)) return named;
      throw new AppError('invalid', 'The logout token names no session that has ended.');
    },
  };
}

function subjectOf(claims: Claims): string {
  return String(claims['sub']);
}

type Claims = Readonly<Record<string, unknown>>;

/** Providers may leave claims out of the ID token and tell them at their userinfo endpoint only. */
async function allClaims(
  provider: openid.Configuration,
  { roles }: OpenIdSettings,
  tokens: openid.TokenEndpointResponse & openid.TokenEndpointResponseHelpers,
): Promise<Claims> {
  const claims: Claims = { ...tokens.claims() };
  const wanted = ['email', 'email_verified', ...roles.map(({ claim }) => claim)];
  if (wanted.every((claim) => claims[claim] !== undefined)) return claims;
  if (provider.serverMetadata().userinfo_endpoint === undefined) return claims;
  const info = await openid.fetchUserInfo(provider, tokens.access_token, String(claims['sub']));
  return { ...info, ...claims };
}

/** An address that the provider does not say to have verified could be anybody's: it counts as none. */
function claimOf(claims: Claims, claim: string): unknown {
  return claim === 'email' && claims['email_verified'] !== true ? undefined : claims[claim];
}

/**
 * The author of what the person does: what the person is called, and who that is at which provider. So nobody can be
 * called as an account of the console is, or as a person of another provider.
 */
function nameOf(claims: Claims, { issuer }: OpenIdSettings): string {
  const name = claimOf(claims, 'email');
  const subject = subjectOf(claims);
  const known =
    subject.length <= subjectCharactersMax ? subject : createHash('sha256').update(subject).digest('base64url');
  const called = typeof name === 'string' ? name.replaceAll(/[^\p{L}\p{M}\p{N} ._@+'-]/gu, '').trim() : '';
  const who = `${known} at ${issuer.replace(/^https?:\/\//, '').replace(/\/$/, '')}`;
  return called === '' ? who : `${called.slice(0, nameCharactersMax)} (${who})`;
}

/** A claim of one value or of several; providers also send numbers and true. */
function holds(claim: unknown, value: string): boolean {
  return [claim]
    .flat()
    .some((each) =>
      typeof each === 'string' ? each === value : typeof each !== 'object' && JSON.stringify(each) === value,
    );
}

/** What the provider or the person said no to, in words for the person. The cause is for the log. */
function refusalOf(cause: unknown): AppError {
  if (cause instanceof openid.AuthorizationResponseError)
    return new AppError('unauthorized', `The provider has not logged you in (${cause.error}).`, { cause });
  if (cause instanceof openid.ResponseBodyError)
    return new AppError('unauthorized', `The provider has refused the login (${cause.error}).`, { cause });
  const isAway = cause instanceof openid.ClientError && awayCodes.has(cause.code ?? '');
  if (isAway || cause instanceof TypeError) return away(cause);
  return new AppError('unauthorized', 'The answer of the provider cannot be believed. Log in again.', {
    message: `the answer of the OpenID provider was refused: ${errorText(cause)}`,
    cause,
  });
}

function away(cause: unknown): AppError {
  return new AppError('unavailable', 'The OpenID provider does not answer as it should. Try again in a while.', {
    message: `the OpenID provider does not answer as it should: ${errorText(cause)}`,
    cause,
  });
}
