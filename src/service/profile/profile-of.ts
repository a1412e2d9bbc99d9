import type { Profile, ProfileName } from './profile.ts';
import { publicProfile } from './public-profile.ts';
import { specProfile } from './spec-profile.ts';

const profiles: Readonly<Record<ProfileName, Profile>> = { spec: specProfile, public: publicProfile };

export function profileOf(name: ProfileName = 'spec'): Profile {
  return profiles[name];
}
