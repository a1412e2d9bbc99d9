/** The client of an intake's world, which answers calls in memory. */
import { z } from 'zod';
import type { IntakeDeps } from '#bridge/intake/intake-deps.ts';
import { createJobCalls } from '#client/job-calls.ts';
import { createReadList } from '#client/list-page.ts';
import { createReadFeed } from '#client/read-feed.ts';
import type { CallApi, Send } from '#client/send-call.ts';
import type { Clock } from '#platform/clock.ts';

export function clientOf(call: CallApi, clock: Clock): IntakeDeps['client'] {
  const send: Send = async (request) => ({
    status: 200,
    headers: {},
    text: '',
    body: await call(request, z.unknown()),
  });
  const uploadFiles = async () => Promise.reject(new Error('nothing is uploaded'));
  return {
    call,
    readList: createReadList(send),
    readFeed: createReadFeed({ send, clock }),
    uploadFiles,
    ...createJobCalls({ call, clock }),
  };
}
