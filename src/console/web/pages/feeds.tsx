/** Feeds: how far each is read, how far behind and why; backfills, audits, what has changed at the sources. */
import { useState } from 'preact/hooks';
import type { FeedsAnswer } from '#console/api/feeds.ts';
import { ActionButton, Dialog, Empty, Failure, Loading, Mark, PageHead, Time } from '../parts/basics.tsx';
import { Table } from '../parts/table.tsx';
import { feedLagText } from '../parts/way-through.tsx';
import { postCall } from '../state/api.ts';
import { useAnswer } from '../state/use-answer.ts';
import { mayOperate } from '../state/viewer.ts';

type Feed = FeedsAnswer['feeds'][number];

const kindWords: Readonly<Record<string, string>> = {
  range: 'backfill',
  audit: 'audit of a window',
  full: 'full audit',
  untimed: 'records without a time',
};

function underWay(progress: string): string {
  return progress === '' ? 'under way' : progress;
}

export function FeedsPage() {
  const { answer, error, busy, reload } = useAnswer<FeedsAnswer>('/api/feeds');
  const [chosen, choose] = useState<Feed>();
  const [asked, setAsked] = useState<string>();
  if (!answer)
    return (
      <>
        <PageHead title="Feeds" />
        {error === undefined ? <Loading /> : <Failure error={error} />}
      </>
    );
  const { feeds, backfills, audits } = answer;
  return (
    <>
      <PageHead title="Feeds" />
      <Failure error={error} />
      {asked === undefined ? null : (
        <p class="note" role="status">
          {asked}
        </p>
      )}
      {feeds.length === 0 ? (
        <Empty>No feed is configured.</Empty>
      ) : (
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
              cell: ({ lag, failures, stalled }) => (
                <span class="state-cell">
                  <Mark tone={failures > 0 || stalled ? 'bad' : lag.inStep ? 'good' : 'busy'}>{feedLagText(lag)}</Mark>
                  {lag.inStep ? null : <span class="under">{lag.why}</span>}
                </span>
              ),
            },
            { name: 'Complete up to', kind: 'time', cell: ({ watermark }) => <Time at={watermark} /> },
            { name: 'Last read', kind: 'time', cell: ({ lastPull }) => <Time at={lastPull} ago /> },
            {
              name: 'Next',
              kind: 'time',
              cell: ({ nextPull }) => (Date.parse(nextPull) <= Date.now() ? 'now' : <Time at={nextPull} ago />),
            },
            { name: 'Notifications', kind: 'number', cell: ({ waiting }) => waiting },
            { name: 'Late arrivals', kind: 'number', cell: ({ lateArrivals }) => lateArrivals },
            {
              name: 'Order',
              cell: ({ ordered, orderBrokenWhy }) =>
                ordered ? 'commits' : <span title={orderBrokenWhy ?? ''}>windows</span>,
            },
            ...(mayOperate()
              ? [
                  {
                    name: 'Actions',
                    cell: (feed: Feed) => (
                      <span class="row-actions">
                        <button type="button" class="plain" onClick={() => choose(feed)}>
                          Backfill
                        </button>
                        <ActionButton
                          kind="plain"
                          action={async () => {
                            await postCall('/api/feeds/audit', { source: feed.source, feed: feed.feed });
                            setAsked(
                              `An audit of the whole feed ${feed.feed} begins with the next look of the puller.`,
                            );
                          }}
                        >
                          Audit
                        </ActionButton>
                      </span>
                    ),
                  },
                ]
              : []),
          ]}
        />
      )}
      {feeds.some(({ warning }) => warning !== null) ? (
        <ul>
          {feeds.flatMap(({ source, feed, warning }) =>
            warning === null
              ? []
              : [
                  <li class="note" key={`${source}/${feed}`}>
                    {source}/{feed}: {warning}
                  </li>,
                ],
          )}
        </ul>
      ) : null}
      <h2>Backfills and audits</h2>
      {backfills.length === 0 ? (
        <Empty>None is under way, and none has ended within the last day.</Empty>
      ) : (
        <Table
          label="Backfills and audits"
          rows={backfills.toReversed()}
          keyOf={({ id }) => String(id)}
          columns={[
            { name: 'Number', cell: ({ id }) => id },
            {
              name: 'Kind',
              cell: ({ kind }) => kindWords[kind] ?? kind,
            },
            { name: 'Feed', cell: ({ source, feed }) => `${source}/${feed}` },
            { name: 'From', kind: 'time', cell: ({ from }) => <Time at={from} /> },
            { name: 'To', kind: 'time', cell: ({ to }) => <Time at={to} /> },
            { name: 'Read up to', kind: 'time', cell: ({ position }) => <Time at={position} /> },
            { name: 'Records', kind: 'number', cell: ({ records }) => records },
            { name: 'Changed', kind: 'number', cell: ({ changed }) => changed },
            {
              name: 'State',
              cell: ({ id, finished, cancelled, lastError, progress }) =>
                finished ? (
                  <Mark tone="good">finished</Mark>
                ) : cancelled ? (
                  <Mark tone="still">cancelled</Mark>
                ) : (
                  <span class="state-cell">
                    <Mark tone={lastError === null ? 'busy' : 'bad'}>{lastError ?? underWay(progress)}</Mark>
                    {mayOperate() ? (
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
      )}
      <h2>Last audits</h2>
      {audits.length === 0 ? (
        <Empty>No audit has run yet.</Empty>
      ) : (
        <Table
          label="Last audits"
          rows={audits}
          keyOf={({ source, feed, kind }) => `${source}/${feed} ${kind}`}
          columns={[
            { name: 'Feed', cell: ({ source, feed }) => `${source}/${feed}` },
            { name: 'Kind', cell: ({ kind }) => kindWords[kind] ?? kind },
            { name: 'Really read up to', kind: 'time', cell: ({ position }) => <Time at={position} /> },
            { name: 'Records', kind: 'number', cell: ({ records }) => records },
            { name: 'Late arrivals', kind: 'number', cell: ({ lateArrivals }) => lateArrivals },
            {
              name: 'Ended',
              kind: 'time',
              cell: ({ finished, cancelled, lastError, progress }) =>
                finished ? <Time at={finished} /> : cancelled ? 'cancelled' : (lastError ?? underWay(progress)),
            },
          ]}
        />
      )}
      {chosen ? (
        <BackfillDialog
          feed={chosen}
          close={() => choose(undefined)}
          done={(id) => {
            choose(undefined);
            setAsked(`Backfill ${id} reads the range again, beside the live pull.`);
            reload();
          }}
        />
      ) : null}
    </>
  );
}

function BackfillDialog({
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
  return (
    <Dialog title={`Read ${feed} again`} close={close}>
      <p class="quiet">
        What was read before stays, and only what differs is delivered. Times are those of this browser.
      </p>
      <label class="field">
        <span>From</span>
        <input type="datetime-local" value={from} onInput={({ currentTarget }) => setFrom(currentTarget.value)} />
      </label>
      <label class="field">
        <span>To (empty: now)</span>
        <input type="datetime-local" value={to} onInput={({ currentTarget }) => setTo(currentTarget.value)} />
      </label>
      <div class="actions end">
        <button type="button" class="plain" onClick={close}>
          Cancel
        </button>
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
      </div>
    </Dialog>
  );
}

function utcOf(local: string): string {
  return new Date(local).toISOString();
}
