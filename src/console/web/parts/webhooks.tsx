/** Webhooks: what came in, genuine or refused and why; register, test, rotate. */
import { useState } from 'preact/hooks';
import type { NotificationsAnswer, WebhooksAnswer, WebhookTestAnswer } from '#console/api/webhooks.ts';
import { postCall } from '../state/api.ts';
import { useAnswer } from '../state/use-answer.ts';
import { mayOperate, viewer } from '../state/viewer.ts';
import { ActionButton, Dialog, DialogEnd, Empty, Failure, Field, Ids, Loading, Mark, Time } from './basics.tsx';
import { PagesOf } from './pages-of.tsx';
import { Table } from './table.tsx';

type Notification = NotificationsAnswer['notifications'][number];

const reasons: Readonly<Record<string, string>> = {
  'no-signature': 'It had no signature: not from a service of this kind.',
  'no-key': 'No signing key is known for its source: register the webhook.',
  'wrong-signature': 'The signature does not fit any key: the key is another one on one side, or it is a forgery.',
  'no-token': 'It had no bearer token, and the source requires one.',
  'wrong-token': 'Its bearer token is not valid.',
};

export function Webhooks() {
  const { answer, error } = useAnswer<NotificationsAnswer>('/api/notifications');
  return (
    <>
      <Failure error={error} />
      {viewer.value?.flows === 'all'
        ? answer?.sources.map((source) => <Registered key={source.name} {...source} />)
        : null}
      {answer && answer.refusals.length > 0 ? (
        <>
          <h2>Notifications that were refused within the last day</h2>
          <Table
            label="Refused notifications"
            rows={answer.refusals}
            keyOf={({ source, reason }) => `${source} ${reason}`}
            columns={[
              { name: 'Source', cell: ({ source }) => source },
              { name: 'Why', kind: 'wide', cell: ({ reason }) => reasons[reason] ?? reason },
              { name: 'Count', kind: 'number', cell: ({ count }) => count },
              { name: 'First', kind: 'time', cell: ({ first }) => <Time at={first} /> },
              { name: 'Last', kind: 'time', cell: ({ last }) => <Time at={last} /> },
            ]}
          />
        </>
      ) : null}
      <h2>Notifications</h2>
      <PagesOf<NotificationsAnswer, Notification>
        path="/api/notifications"
        parameters={{}}
        place="before"
        rowsOf={({ notifications }) => notifications}
      >
        {(rows, { busy }) =>
          rows.length === 0 ? (
            <Empty>None has come in yet. The feeds are read on their schedule all the same.</Empty>
          ) : (
            <Table
              label="Notifications"
              busy={busy}
              rows={rows}
              keyOf={({ id }) => String(id)}
              columns={[
                { name: 'Received', kind: 'time', cell: ({ received }) => <Time at={received} /> },
                {
                  name: 'What',
                  kind: 'wide',
                  cell: ({ trigger, feed, body }) => (
                    <span>
                      <strong>{feed === null ? trigger : `${feed} changed`}</strong>
                      <span class="under">{eventNameOf(body) ?? trigger}</span>
                    </span>
                  ),
                },
                { name: 'Source', cell: ({ source }) => source },
                { name: 'Feed read', kind: 'time', cell: (row) => <Answered notification={row} /> },
                { name: 'Ids', cell: ({ id, pull }) => <Ids ids={{ notification: String(id), pull }} /> },
              ]}
            />
          )
        }
      </PagesOf>
    </>
  );
}

function eventNameOf(body: string): string | undefined {
  try {
    const { sourcing_event_name: name } = JSON.parse(body) as { sourcing_event_name?: unknown };
    return typeof name === 'string' ? name : undefined;
  } catch {
    return undefined;
  }
}

function Answered({ notification: { answered, feed } }: { notification: Notification }) {
  if (answered !== null) return <Time at={answered} />;
  return <Mark tone={feed === null ? 'still' : 'busy'}>{feed === null ? 'nothing to read' : 'not read yet'}</Mark>;
}

function Registered({ name, url }: { name: string; url: string }) {
  const { answer, error, reload } = useAnswer<WebhooksAnswer>('/api/webhooks', { source: name }, { live: false });
  const [asks, setAsks] = useState<'register' | 'rotate'>();
  const [tested, setTested] = useState<WebhookTestAnswer['tested']>();
  const close = () => setAsks(undefined);
  const done = () => {
    close();
    reload();
  };
  return (
    <section>
      <div class="section-head">
        <h2>Webhooks of {name}</h2>
        {mayOperate() ? (
          <div class="actions">
            <button type="button" class="secondary" onClick={() => setAsks('register')}>
              Register
            </button>
            <ActionButton
              action={async () =>
                setTested((await postCall<WebhookTestAnswer>('/api/webhooks/test', { source: name })).tested)
              }
            >
              Test
            </ActionButton>
            <button type="button" class="secondary" onClick={() => setAsks('rotate')}>
              Rotate keys
            </button>
          </div>
        ) : null}
      </div>
      {answer === undefined && error === undefined ? <Loading what="The service is asked for its webhooks" /> : null}
      <Failure error={error === undefined ? undefined : `The service could not be asked for its webhooks: ${error}`} />
      {tested?.map(({ uuid, arrived, tookMs, findings }) => (
        <div key={uuid} class={arrived ? 'note' : 'failure'} role="status">
          {arrived ? `The test is in the inbox, after ${tookMs} ms.` : 'The test did not arrive.'}
          <ul>
            {findings.map((finding) => (
              <li key={finding}>{finding}</li>
            ))}
          </ul>
        </div>
      ))}
      {answer && answer.webhooks.length === 0 ? (
        <Empty>No webhook: the feeds are read on their schedule only.</Empty>
      ) : null}
      {answer && answer.webhooks.length > 0 ? (
        <Table
          label={`Webhooks of ${name}`}
          rows={answer.webhooks}
          keyOf={({ uuid, url: at }) => `${uuid} ${at}`}
          columns={[
            { name: 'Name', cell: (webhook) => webhook.name },
            { name: 'URL', kind: 'wide', cell: (webhook) => webhook.url },
            {
              name: 'At the service',
              cell: ({ service }) => (
                <Mark tone={service === 'active' ? 'good' : service === 'unknown' ? 'still' : 'bad'}>{service}</Mark>
              ),
            },
            { name: 'Key here', cell: ({ key }) => key },
            { name: 'Ids', cell: ({ uuid }) => <Ids ids={{ webhook: uuid }} /> },
          ]}
        />
      ) : null}
      {asks === 'register' ? <RegisterDialog source={name} url={url} close={close} done={done} /> : null}
      {asks === 'rotate' ? (
        <Dialog title={`Replace the signing keys of ${name}?`} close={close}>
          <p class="quiet">
            Each webhook is made anew with a new key, and the one before it is deleted. The key before stays valid for
            an hour, so that no notification is lost; the feeds are read once more.
          </p>
          <DialogEnd close={close}>
            <ActionButton
              kind="primary"
              action={async () => {
                await postCall('/api/webhooks/rotate', { source: name });
                done();
              }}
            >
              Replace them
            </ActionButton>
          </DialogEnd>
        </Dialog>
      ) : null}
    </section>
  );
}

function RegisterDialog({
  source,
  url: given,
  close,
  done,
}: {
  source: string;
  url: string;
  close: () => void;
  done: () => void;
}) {
  const [url, setUrl] = useState(given);
  return (
    <Dialog title={`Register a webhook at ${source}`} close={close}>
      <p class="quiet">
        The service will announce changes to this URL. Its signing key is stored here, and shown to nobody.
      </p>
      <Field label="URL by which the service reaches this bridge" type="url" value={url} set={setUrl} />
      <DialogEnd close={close}>
        <ActionButton
          kind="primary"
          action={async () => {
            await postCall('/api/webhooks/register', { source, url });
            done();
          }}
        >
          Register
        </ActionButton>
      </DialogEnd>
    </Dialog>
  );
}
