/** Webhooks: what came in, genuine or refused and why, what it led to; register, test, rotate. */
import { useState } from 'preact/hooks';
import type { LedToAnswer, NotificationsAnswer, WebhooksAnswer, WebhookTestAnswer } from '#console/api/webhooks.ts';
import { ActionButton, Dialog, Empty, Failure, Ids, Loading, Mark, PageHead, Time } from '../parts/basics.tsx';
import { PagesOf } from '../parts/pages-of.tsx';
import { Table } from '../parts/table.tsx';
import { get, postCall } from '../state/api.ts';
import { useAnswer } from '../state/use-answer.ts';
import { mayOperate, viewer } from '../state/viewer.ts';

type Notification = NotificationsAnswer['notifications'][number];

const reasons: Readonly<Record<string, string>> = {
  'no-signature': 'It had no signature: not from a service of this kind.',
  'no-key': 'No signing key is known for its source: register the webhook.',
  'wrong-signature': 'The signature does not fit any key: the key is another one on one side, or it is a forgery.',
  'no-token': 'It had no bearer token, and the source requires one.',
  'wrong-token': 'Its bearer token is not valid.',
};

export function WebhooksPage() {
  const { answer, error } = useAnswer<NotificationsAnswer>('/api/notifications');
  return (
    <>
      <PageHead title="Webhooks" />
      <Failure error={error} />
      {answer === undefined && error === undefined ? <Loading /> : null}
      {viewer.value?.flows === 'all'
        ? answer?.sources.map((source) => <Registered key={source.name} {...source} />)
        : null}
      <h2>Refused within the last day</h2>
      {answer?.refusals.length === 0 ? <Empty>None: every notification was genuine.</Empty> : null}
      {answer && answer.refusals.length > 0 ? (
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
      ) : null}
      <h2>Genuine</h2>
      <PagesOf<NotificationsAnswer, Notification>
        path="/api/notifications"
        parameters={{}}
        place="before"
        rowsOf={({ notifications }) => notifications}
      >
        {(rows, { busy }) =>
          rows.length === 0 ? (
            <Empty>No notification has come in yet. The feeds are read on their schedule all the same.</Empty>
          ) : (
            <Table
              label="Notifications"
              busy={busy}
              rows={rows}
              keyOf={({ id }) => String(id)}
              columns={[
                { name: 'Received', kind: 'time', cell: ({ received }) => <Time at={received} /> },
                { name: 'What', kind: 'wide', cell: (row) => <What notification={row} /> },
                { name: 'Source', cell: ({ source }) => source },
                {
                  name: 'What it led to',
                  cell: (row) => <LedTo notification={row} />,
                },
                { name: 'Ids', cell: ({ id, pull }) => <Ids ids={{ notification: String(id), pull }} /> },
              ]}
            />
          )
        }
      </PagesOf>
    </>
  );
}

function What({ notification: { trigger, feed, body } }: { notification: Notification }) {
  const named = eventNameOf(body);
  return (
    <span>
      <strong>{feed === null ? trigger : `${feed} changed`}</strong>
      <span class="under">{named ?? trigger}</span>
    </span>
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

function LedTo({ notification: { answered, pull, feed } }: { notification: Notification }) {
  const [made, setMade] = useState<number>();
  if (answered === null)
    return <Mark tone={feed === null ? 'still' : 'busy'}>{feed === null ? 'nothing to read' : 'not read yet'}</Mark>;
  return (
    <span>
      Read <Time at={answered} />
      {pull === null ? null : made === undefined ? (
        <ActionButton
          kind="plain"
          action={async () => setMade((await get<LedToAnswer>('/api/notifications/led-to', { pull })).documents)}
        >
          how many documents?
        </ActionButton>
      ) : (
        <span class="under">{made} documents were changed by this read last</span>
      )}
    </span>
  );
}

function Registered({ name, url }: { name: string; url: string }) {
  const { answer, error, reload } = useAnswer<WebhooksAnswer>('/api/webhooks', { source: name }, { live: false });
  const [asks, setAsks] = useState<'register' | 'rotate'>();
  const [tested, setTested] = useState<WebhookTestAnswer['tested']>();
  const close = () => setAsks(undefined);
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
          keyOf={({ uuid, url }) => `${uuid} ${url}`}
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
            { name: 'Announces', kind: 'wide', cell: ({ triggers }) => triggers?.replace(/^\[|\]$/g, '') ?? '' },
            { name: 'Ids', cell: ({ uuid }) => <Ids ids={{ webhook: uuid }} /> },
          ]}
        />
      ) : null}
      {asks === 'register' ? (
        <RegisterDialog
          source={name}
          url={url}
          close={close}
          done={() => {
            close();
            reload();
          }}
        />
      ) : null}
      {asks === 'rotate' ? (
        <Dialog title={`Replace the signing keys of ${name}?`} close={close}>
          <p class="quiet">
            Each webhook is made anew with a new key, and the one before it is deleted. The key before stays valid for
            an hour, so that no notification is lost; the feeds are read once more.
          </p>
          <div class="actions end">
            <button type="button" class="plain" onClick={close}>
              Cancel
            </button>
            <ActionButton
              kind="primary"
              action={async () => {
                await postCall('/api/webhooks/rotate', { source: name });
                close();
                reload();
              }}
            >
              Replace them
            </ActionButton>
          </div>
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
      <label class="field">
        <span>URL by which the service reaches this bridge</span>
        <input type="url" value={url} onInput={({ currentTarget }) => setUrl(currentTarget.value)} />
      </label>
      <div class="actions end">
        <button type="button" class="plain" onClick={close}>
          Cancel
        </button>
        <ActionButton
          kind="primary"
          action={async () => {
            await postCall('/api/webhooks/register', { source, url });
            done();
          }}
        >
          Register
        </ActionButton>
      </div>
    </Dialog>
  );
}
