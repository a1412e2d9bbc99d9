/**
 * Checks tokens by asking an authorisation server (RFC 7662). A good answer is cached for half a minute. When the
 * server cannot be reached, or answers anything else, no notification is accepted: the service sends it again.
 */
import { z } from 'zod';
import type { SourceSettings } from '#bridge/settings.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { acceptEncoding, readJsonAnswer } from '#platform/foreign-answer.ts';
import { anyNetwork } from '#platform/network-guard.ts';
import type { BearerCheck, BearerDeps } from './bearer-deps.ts';
import { createVerdicts, type Verdict } from './token-verdicts.ts';

type Introspection = Extract<SourceSettings['bearer'], { type: 'introspection' }>;

const validCacheMs = 30_000;
/** Shorter: a token that the server does not know yet may be known a moment later. */
const invalidCacheMs = 5_000;
const timeoutMs = 5_000;
const answerBytesMax = 64 * 1024;

const introspection = z.looseObject({ active: z.boolean(), exp: z.number().optional(), nbf: z.number().optional() });

/** Creates the check. It rejects with AppError `unavailable` when the server cannot be asked. */
export function createIntrospectionCheck(settings: Introspection, { fetch, clock }: BearerDeps): BearerCheck {
  const { client_id: id, client_secret: secret } = settings;
  const authorization = `Basic ${Buffer.from(`${formEncoded(id)}:${formEncoded(secret)}`).toString('base64')}`;

  async function ask(token: string): Promise<unknown> {
    const answer = await fetch({
      url: settings.introspection_url,
      method: 'POST',
      headers: {
        authorization,
        accept: 'application/json',
        'accept-encoding': acceptEncoding,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: new URLSearchParams({ token, token_type_hint: 'access_token' }).toString(),
      allowedNetworks: anyNetwork,
      timeoutMs,
      responseBytesMax: answerBytesMax,
      onTooLarge: 'fail',
    });
    if (answer.status !== 200) throw new Error(`it answered ${answer.status}`);
    return readJsonAnswer(answer, 'its answer', answerBytesMax);
  }

  return createVerdicts(clock, async (token): Promise<Verdict> => {
    let body: unknown;
    try {
      body = await ask(token);
    } catch (cause) {
      throw unavailable(errorText(cause));
    }
    const parsed = introspection.safeParse(body);
    if (!parsed.success) throw unavailable('its answer has no "active"');
    const { active, exp = Number.POSITIVE_INFINITY, nbf = 0 } = parsed.data;
    const nowMs = clock.nowMs();
    const isValid = active && exp * 1000 > nowMs && nbf * 1000 <= nowMs;
    return { isValid, untilMs: isValid ? Math.min(nowMs + validCacheMs, exp * 1000) : nowMs + invalidCacheMs };
  });
}

function formEncoded(text: string): string {
  return new URLSearchParams([['', text]]).toString().slice(1);
}

/** The client learns that the token is not at fault; the reason is only in the log. */
function unavailable(reason: string): AppError {
  return new AppError('unavailable', 'The bearer token cannot be checked at the moment. Send it again later.', {
    message: `the introspection of a bearer token failed: ${reason}`,
  });
}
