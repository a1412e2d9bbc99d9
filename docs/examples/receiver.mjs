// Receives notifications on PORT: SIGNING_KEY=… PORT=8000 node receiver.mjs. Put HTTPS in front of it.
import { createServer } from 'node:http';
import { createReceiver, toNodeHandler } from 'sourcing-bridge/receiver';

const receiver = createReceiver({
  signingKeys: [process.env.SIGNING_KEY],
  on: {
    AWARDS_FEED_UPDATED: ({ payload }) => console.log(`read the awards of ${payload.sourcing_event}`),
    TEST: ({ payload }) => console.log(`test: ${payload.detail}`),
    otherwise: ({ trigger }) => console.log(`nothing to do for ${trigger}`),
  },
});

const server = createServer(toNodeHandler(receiver));
server.listen(Number(process.env.PORT ?? 8000), '127.0.0.1', () =>
  console.log(`listening on ${server.address().port}`),
);
