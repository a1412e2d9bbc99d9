/** "Show me": the simulator plays an event at the local service. */

import { z } from 'zod';
import { AppError } from '#platform/errors.ts';
import { startCommand } from '#platform/own-package.ts';
import { actionCall, type ConsoleApiDeps } from './console-call.ts';

export const storyCall = ({ story, note }: ConsoleApiDeps) =>
  actionCall('/api/story', z.strictObject({}), async ({ viewer }) => {
    if (!story)
      throw new AppError('not-found', `No local service runs in this process: start it with ${startCommand}.`);
    await note(viewer, { what: 'story.play', object: null });
    story.start();
  });
