/** Is all well? The way through, with the state of each part, and what happened last. */
import { useState } from 'preact/hooks';
import type { ChartsAnswer } from '#console/api/read-charts.ts';
import type { OverviewAnswer } from '#console/api/read-overview.ts';
import { ActionButton, Empty, Failure, Loading, PageHead, Reference, Tabs, Time } from '../parts/basics.tsx';
import { Chart } from '../parts/chart.tsx';
import { keyOfRow, kindNames, titleOf } from '../parts/document-row.tsx';
import { documentPath, documentsPath, flowPath, intakePath } from '../parts/paths.ts';
import { WayThrough } from '../parts/way-through.tsx';
import { postCall } from '../state/api.ts';
import { moneyText } from '../state/numbers.ts';
import { useAnswer } from '../state/use-answer.ts';
import { mayOperate } from '../state/viewer.ts';

type Status = OverviewAnswer['status'];

export function OverviewPage() {
  const { answer, error, reload } = useAnswer<OverviewAnswer>('/api/overview');
  return (
    <>
      <PageHead title="Overview" />
      <Failure error={error} />
      {answer === undefined && error === undefined ? <Loading /> : null}
      {answer ? <Shown answer={answer} reload={reload} /> : null}
    </>
  );
}

function Shown({ answer, reload }: { answer: OverviewAnswer; reload: () => void }) {
  const { status, latest, refused, story } = answer;
  const isEmpty = latest.length === 0 && status.flows.every(({ due, deadLetters }) => due === 0 && deadLetters === 0);
  return (
    <>
      <Verdict answer={answer} />
      {story && (isEmpty || story.playing) ? <Story story={story} reload={reload} /> : null}
      <WayThrough answer={answer} />
      <Charts />
      <div class="columns">
        <section>
          <h2>Delivered last</h2>
          {latest.length === 0 ? (
            <Empty>Nothing was delivered yet.</Empty>
          ) : (
            <ul class="happened">
              {latest.map((row) => (
                <li key={keyOfRow(row)}>
                  <a href={documentPath(row)}>{titleOf(row)}</a>
                  <span class="under">
                    {[
                      kindNames[row.kind],
                      row.kind === 'supplier' ? row.supplierExternalId : row.supplierName,
                      row.amount ? moneyText(row.amount, row.currency) : '',
                    ]
                      .filter(Boolean)
                      .join(' · ')}
                  </span>
                  <Reference reference={row.reference} url={row.url} />
                  <Time at={row.delivered} ago />
                </li>
              ))}
            </ul>
          )}
        </section>
        <section>
          <h2>{refused.length === 0 ? 'Dead letters' : <a href="/dead-letters">Dead letters</a>}</h2>
          {refused.length === 0 ? (
            <Empty>None: the ERPs have refused nothing.</Empty>
          ) : (
            <ul class="happened">
              {refused.map((row) => (
                <li key={keyOfRow(row)}>
                  <a href={documentPath(row)}>{titleOf(row)}</a>
                  <span class="under">{[kindNames[row.kind], row.supplierName].filter(Boolean).join(' · ')}</span>
                  <span class="bad-text clip" title={row.why ?? ''}>
                    {row.why}
                  </span>
                  <Time at={row.since} ago />
                </li>
              ))}
            </ul>
          )}
        </section>
      </div>
    </>
  );
}

/** One sentence: all is well, or what is not. */
function Verdict({ answer: { needsLook, status } }: { answer: OverviewAnswer }) {
  const troubles = troublesOf(status);
  const due = status.flows.reduce((sum, flow) => sum + flow.due, 0);
  if (needsLook || troubles.length > 0)
    return (
      <div class="verdict bad" role="status">
        <p>
          <strong>{troubles.length === 1 ? 'One thing needs a look.' : 'Some things need a look.'}</strong>
        </p>
        <ul>
          {troubles.map(({ text, path }) => (
            <li key={text}>
              <a href={path}>{text}</a>
            </li>
          ))}
        </ul>
      </div>
    );
  if (due > 0 || [...status.feeds, ...status.flows].some(({ lag }) => !lag.inStep))
    return (
      <div class="verdict busy" role="status">
        <p>
          <strong>All is well; the bridge is working.</strong>{' '}
          {due > 0 ? (
            <a href={documentsPath({ state: 'waiting' })}>{due} documents are on their way.</a>
          ) : (
            'It is catching up.'
          )}
        </p>
      </div>
    );
  return (
    <div class="verdict good" role="status">
      <p>
        <strong>All is well.</strong> Every feed is read, and the ERPs hold what they should.
      </p>
    </div>
  );
}

function troublesOf({
  feeds,
  flows,
  intakes,
  audits,
  changes,
  alertChannels,
}: Status): { text: string; path: string }[] {
  return [
    ...intakes.flatMap(({ intake, pausedReason, deadLetters, readFailures, stuck, lag }) =>
      pausedReason !== null || deadLetters > 0 || readFailures > 0 || stuck
        ? [{ text: `The intake ${intake}: ${lag.why}`, path: intakePath(intake) }]
        : [],
    ),
    ...alertChannels.flatMap(({ channel, lastError, givenUp }) =>
      lastError !== null || givenUp > 0
        ? [{ text: `Alerts do not arrive at ${channel}: ${lastError ?? 'messages were given up'}`, path: '/doctor' }]
        : [],
    ),
    ...flows.flatMap(({ flow, pausedReason, circuitUntil, deadLetters, stuck, lastError }) => [
      ...(pausedReason !== null ? [{ text: `The flow ${flow} is paused: ${pausedReason}`, path: flowPath(flow) }] : []),
      ...(circuitUntil !== null
        ? [{ text: `The ERP of ${flow} refuses everything: ${lastError ?? 'no reason known'}`, path: flowPath(flow) }]
        : []),
      ...(deadLetters > 0
        ? [
            {
              text: `${flow}: ${deadLetters === 1 ? 'one document was' : `${deadLetters} documents were`} refused`,
              path: `/dead-letters?flow=${encodeURIComponent(flow)}`,
            },
          ]
        : []),
      ...(stuck > 0
        ? [
            {
              text: `${flow}: ${stuck} documents have been tried many times`,
              path: documentsPath({ flow, state: 'waiting' }),
            },
          ]
        : []),
    ]),
    ...feeds.flatMap(({ source, feed, failures, stalled, lag }) =>
      failures > 0 || stalled ? [{ text: `The feed ${source}/${feed}: ${lag.why}`, path: '/feeds' }] : [],
    ),
    ...audits.flatMap(({ source, feed, finished, cancelled, failures, lastError }) =>
      finished === null && cancelled === null && failures >= 5
        ? [{ text: `The audit of ${source}/${feed} fails: ${lastError ?? ''}`, path: '/feeds' }]
        : [],
    ),
    ...changes.flatMap(({ isMissed, source, feed, detail }) =>
      isMissed ? [{ text: `${source}/${feed}: ${detail}`, path: '/feeds' }] : [],
    ),
  ];
}

function Story({ story, reload }: { story: NonNullable<OverviewAnswer['story']>; reload: () => void }) {
  return (
    <section class="card story">
      <h2>{story.playing ? 'A bid becomes an order' : 'Nothing has happened here yet'}</h2>
      {story.playing || story.lines.length > 0 ? (
        <ol>
          {story.lines.slice(-6).map((line, index) => (
            <li key={`${index} ${line}`}>{line}</li>
          ))}
        </ol>
      ) : (
        <p>
          Have the simulator play buyers and suppliers at the local service: an event, its bids, its award, and the
          order in the ERP.
        </p>
      )}
      <Failure error={story.error ?? undefined} />
      {mayOperate() && !story.playing ? (
        <ActionButton
          kind="primary"
          action={async () => {
            await postCall('/api/story');
            reload();
          }}
        >
          Show me
        </ActionButton>
      ) : null}
    </section>
  );
}

const ranges = ['hour', 'day', 'week'] as const;

function Charts() {
  const [range, setRange] = useState<(typeof ranges)[number]>('hour');
  const { answer, error } = useAnswer<ChartsAnswer>('/api/charts', { range });
  return (
    <section class="charts-box">
      <div class="section-head">
        <h2>What happened</h2>
        <Tabs label="Range of the charts" names={ranges} chosen={range} choose={setRange} />
      </div>
      <Failure error={error} />
      {answer ? (
        <div class="charts">
          <Chart
            title="Changes"
            unit=""
            samples={answer}
            of={(at) => sumAt(answer.feeds, at, ({ changes }) => changes)}
            kind="bars"
            total="sum"
          />
          <Chart
            title="Deliveries"
            unit=""
            samples={answer}
            of={(at) => sumAt(answer.flows, at, ({ deliveries }) => deliveries)}
            kind="bars"
            total="sum"
          />
          <Chart
            title="Lag"
            unit=" s"
            samples={answer}
            of={(at) => longestLag([...answer.feeds, ...answer.flows], at)}
            kind="line"
            total="last"
          />
          <Chart
            title="Dead letters"
            unit=""
            samples={answer}
            of={(at) => sumAt(answer.flows, at, ({ deadLetters }) => deadLetters)}
            kind="line"
            total="last"
            tone="bad"
          />
        </div>
      ) : null}
    </section>
  );
}

function sumAt<Point extends { at: string }>(
  series: readonly { points: readonly Point[] }[],
  at: string,
  valueOf: (point: Point) => number | null,
): number | null {
  const values = series
    .flatMap(({ points }) => points.filter((point) => point.at === at).map(valueOf))
    .filter((value) => value !== null);
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0);
}

function longestLag(
  series: readonly { points: readonly { at: string; lagSeconds: number | null }[] }[],
  at: string,
): number | null {
  const values = series.flatMap(({ points }) =>
    points.flatMap((point) => (point.at === at && point.lagSeconds !== null ? [point.lagSeconds] : [])),
  );
  return values.length === 0 ? null : Math.max(...values);
}
