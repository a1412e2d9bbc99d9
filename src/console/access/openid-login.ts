/**
 * Login by an OpenID provider (authorisation code with PKCE, OpenID Connect Core 1.0), through openid-openid. What a
 * login needs between going to the provider and coming back is sealed into a cookie: no visitor makes anything grow here.
 * The provider is asked for its metadata at the first login, so a provider that is away does not delay the start.
 */
import * as openid from 'openid-client';
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { SecretBox } from '#platform/secrets.ts';
import type { Viewer } from './viewer.ts';

export type OpenIdSettings = NonNullable<BridgeSettings['console_login']['openid']>;

export const callbackPath = '/login/openid/callback';

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
   * answer, `unauthorized` for an answer that does not belong to this browser's login or is not genuine, and
   * `OpenIdRefusal` for a person whom no role fits.
   */
  finish(query: string, cookie: string | undefined): Promise<{ viewer: Viewer; subject: string; next: string }>;
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
}: {
  settings: OpenIdSettings;
  consoleUrl: string;
  secrets: SecretBox;
  clock: Clock;
}): OpenIdLogin {
  const redirectUrl = `${consoleUrl}${callbackPath}`;
  let provider: Promise<openid.Configuration> | undefined;

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
          execute: settings.issuer.startsWith('http:') ? [openid.allowInsecureRequests] : [],
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
      const role = settings.roles.find(({ claim, value }) => holds(claims[claim], value));
      if (!role) throw new OpenIdRefusal(name);
      return {
        viewer: { name, role: role.role, flows: role.flows ?? 'all' },
        subject: String(claims['sub']),
        next: underWay.next,
      };
    },
  };
}

type Claims = Readonly<Record<string, unknown>>;

/** Providers may leave claims out of the ID token and tell them at their userinfo endpoint only. */
async function allClaims(
  provider: openid.Configuration,
  { roles, name_claim }: OpenIdSettings,
  tokens: openid.TokenEndpointResponse & openid.TokenEndpointResponseHelpers,
): Promise<Claims> {
  const claims: Claims = { ...tokens.claims() };
  const wanted = [name_claim, ...roles.map(({ claim }) => claim)];
  if (wanted.every((claim) => claims[claim] !== undefined)) return claims;
  if (provider.serverMetadata().userinfo_endpoint === undefined) return claims;
  const info = await openid.fetchUserInfo(provider, tokens.access_token, String(claims['sub']));
  return { ...info, ...claims };
}

/** An address that the provider has not verified could be anybody's: then the subject is the name. */
function nameOf(claims: Claims, { name_claim }: OpenIdSettings): string {
  const name = claims[name_claim];
  const isDoubtful = name_claim === 'email' && claims['email_verified'] === false;
  return typeof name === 'string' && name !== '' && !isDoubtful ? name : String(claims['sub']);
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
