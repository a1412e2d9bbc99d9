/** The service's tables of endpoints, for tests that read them and do not call them. */
import { systemClock } from '#platform/clock.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { operatorApi, organisationApi } from '#service/api.ts';
import { createLocalStorage } from '#service/files/storage/local-storage.ts';
import { specProfile } from '#service/profile/spec-profile.ts';
import { createAccessTokens } from '#service/webhooks/access-tokens.ts';

const notCalled = () => Promise.reject(new Error('a table of endpoints is not called'));

const deps: Parameters<typeof organisationApi>[0] = {
  clock: systemClock,
  secrets: createSecretBox(Buffer.alloc(32)),
  storage: createLocalStorage('/never/used'),
  fileBytesMax: 1_073_741_824,
  profile: specProfile,
  accessTokens: createAccessTokens({ clock: systemClock, fetch: notCalled }),
};

export const organisationEndpoints = organisationApi(deps);
export const operatorEndpoints = operatorApi(deps);
