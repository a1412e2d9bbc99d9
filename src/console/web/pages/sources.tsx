/** The sources: how far each feed is read and why not further, what is read again, and what the webhooks bring. */
import { useState } from 'preact/hooks';
import type { FeedsAnswer } from '#console/api/feeds.ts';
import {
  ActionButton,
  Dialog,
  DialogEnd,
  Empty,
  Failure,
  Field,
  Mark,
  PageHead,
  Term,
  Time,
  Waiting,
} from '../parts/basics.tsx';
import { Table } from '../parts/table.tsx';
import { FeedMark } from '../parts/way-through.tsx';
import { Webhooks } from '../parts/webhooks.tsx';
import { postCall } from '../state/api.ts';
import { useAnswer } from '../state/use-answer.ts';
import { mayOperate } from '../state/viewer.ts';

type Feed = FeedsAnswer['feeds'][number];

const kindWords: Readonly<Record<string, string>> = {
  range: 'asked for',
  audit: 'check of the last days',
  full: 'check of the whole feed',
  untimed: 'records without a time',
};

export function SourcesPage() {
  const { answer, error, busy, reload } = useAnswer<FeedsAnswer>('/api/feeds');
  const [chosen, choose] = useState<Feed>();
  const [asked, setAsked] = useState<string>();
  if (!answer) return <Waiting title="Sources" error={error} />;
  const { feeds, conditions } = answer;
  return (
    <>
      <PageHead title="Sources" />
      <Failure error={error} />
      {asked === undefined ? null : (
        <p class="note" role="status">
          {asked}
        </p>
      )}
      <Table
        label="Feeds"
        busy={busy}
        rows={feeds}
        keyOf={({ source, feed }) => `${source}/${feed}`}
        columns={[
          {
            name: 'Feed',
            kind: 'wide',
            cell: ({ source, feed }) => (
              <span>
                <strong>{feed}</strong>
                <span class="under">{source}</span>
              </span>
            ),
          },
          {
            name: 'State',
            cell: ({ source, feed, lag, warning }) => (
              <span class="state-cell">
                <FeedMark subject={`feed ${source}/${feed}`} lag={lag} conditions={conditions} />
                {lag.inStep ? null : <span class="under">{lag.why}</span>}
                {warning === null ? null : <span class="under">{warning}</span>}
              </span>
            ),
          },
          { name: 'Complete up to', kind: 'time', cell: ({ watermark }) => <Time at={watermark} /> },
          {
            name: 'Next read',
            kind: 'time',
            cell: ({ nextPull }) => (Date.parse(nextPull) <= Date.now() ? 'now' : <Time at={nextPull} ago />),
          },
          { name: 'Late', kind: 'number', cell: ({ lateArrivals }) => <Term word="late">{lateArrivals}</Term> },
          { name: 'Order', cell: ({ ordered }) => <Term word={ordered ? 'order guaranteed' : 'order checked'} /> },
          ...(mayOperate()
            ? [
                {
                  name: 'Actions',
                  cell: (feed: Feed) => (
                    <span class="row-actions">
                      <button type="button" class="plain" onClick={() => choose(feed)}>
                        Re-read
                      </button>
                      <ActionButton
                        kind="plain"
                        action={async () => {
                          await postCall('/api/feeds/audit', { source: feed.source, feed: feed.feed });
                          setAsked(`A check of the whole feed ${feed.feed} begins with the next look of the puller.`);
                        }}
                      >
                        Check
                      </ActionButton>
                    </span>
                  ),
                },
              ]
            : []),
        ]}
      />
      <h2>
        <Term word="re-read">Re-reads</Term> and checks
      </h2>
      <Rereads answer={answer} reload={reload} />
      <Webhooks />
      {chosen ? (
        <RereadDialog
          feed={chosen}
          close={() => choose(undefined)}
          done={(id) => {
            choose(undefined);
            setAsked(`Re-read ${id} reads the range again, beside the live reading.`);
            reload();
          }}
        />
      ) : null}
    </>
  );
}

/** Those of the last day and, of each feed, the last check, however long ago. */
function Rereads({ answer: { backfills, audits }, reload }: { answer: FeedsAnswer; reload: () => void }) {
  const earlier = audits.filter(
    (audit) => !backfills.some(({ source, feed, asked }) => [source, feed, asked].join() === placeOf(audit)),
  );
  const rows = [
    ...backfills.toReversed(),
    ...earlier.map((audit) => ({ ...audit, id: undefined, changed: undefined })),
  ];
  if (rows.length === 0) return <Empty>None is under way, and none has ended yet.</Empty>;
  return (
    <Table
      label="Re-reads and checks"
      rows={rows}
      keyOf={(row) => placeOf(row)}
      columns={[
        { name: 'Feed', cell: ({ source, feed }) => `${source}/${feed}` },
        { name: 'Why', cell: ({ kind }) => kindWords[kind] ?? kind },
        { name: 'From', kind: 'time', cell: ({ from }) => <Time at={from} /> },
        { name: 'To', kind: 'time', cell: ({ to }) => <Time at={to} /> },
        { name: 'Read up to', kind: 'time', cell: ({ position }) => <Time at={position} /> },
        { name: 'Records', kind: 'number', cell: ({ records }) => records },
        { name: 'Changed', kind: 'number', cell: ({ changed }) => changed ?? '' },
        {
          name: 'State',
          cell: ({ id, finished, cancelled, lastError, progress }) =>
            finished ? (
              <Mark tone="good">finished</Mark>
            ) : cancelled ? (
              <Mark tone="still">cancelled</Mark>
            ) : (
              <span class="state-cell">
                <Mark tone={lastError === null ? 'busy' : 'bad'}>{lastError ?? (progress || 'under way')}</Mark>
                {mayOperate() && id !== undefined ? (
                  <ActionButton
                    kind="plain"
                    action={async () => {
                      await postCall('/api/feeds/cancel-backfill', { id });
                      reload();
                    }}
                  >
                    Cancel
                  </ActionButton>
                ) : null}
              </span>
            ),
        },
      ]}
    />
  );
}

function placeOf({ source, feed, asked }: { source: string; feed: string; asked: string }): string {
  return [source, feed, asked].join();
}

function RereadDialog({
  feed: { source, feed },
  close,
  done,
}: {
  feed: Feed;
  close: () => void;
  done: (id: number) => void;
}) {
  const [from, setFrom] = useState('');
  const [to, setTo] = useState('');
  const utcOf = (local: string) => new Date(local).toISOString();
  return (
    <Dialog title={`Read ${feed} again`} close={close}>
      <p class="quiet">
        What was read before stays, and only what differs is delivered. Times are those of this browser.
      </p>
      <Field label="From" type="datetime-local" value={from} set={setFrom} />
      <Field label="To (empty: now)" type="datetime-local" value={to} set={setTo} />
      <DialogEnd close={close}>
        <ActionButton
          kind="primary"
          disabled={from === ''}
          action={async () => {
            const body = { source, feed, from: utcOf(from), ...(to === '' ? {} : { to: utcOf(to) }) };
            done((await postCall<{ id: number }>('/api/feeds/backfill', body)).id);
          }}
        >
          Read it again
        </ActionButton>
      </DialogEnd>
    </Dialog>
  );
}
