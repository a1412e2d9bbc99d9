/** The way through and the way back as a picture: each part with its state, and as a link to its page. */
import type { OverviewAnswer } from '#console/api/read-overview.ts';
import { durationOf } from '#console/duration.ts';
import { numberText } from '../state/numbers.ts';
import { Empty, Mark, type Tone } from './basics.tsx';
import { needsLook } from './conditions.ts';
import { IntakeMark } from './intake-mark.tsx';
import { flowPath, intakePath } from './paths.ts';

type Status = OverviewAnswer['status'];

function toneOf({ conditions }: Status, subject: string, { inStep }: { inStep: boolean }): Tone {
  if (needsLook(conditions, subject)) return 'bad';
  return inStep ? 'good' : 'busy';
}

const toneWords: Readonly<Record<Tone, string>> = {
  good: 'up to date',
  busy: 'working',
  bad: 'needs a look',
  still: 'still',
};

/** The way through, source by source: its feeds, the flows that they feed, and the ERPs. */
export function WayThrough({ answer: { status, sources, connectors, intakes } }: { answer: OverviewAnswer }) {
  if (sources.length === 0) return <Empty>No source is configured (bridge.sources).</Empty>;
  return (
    <section aria-label="The way through">
      {sources.map(({ name, host }) => (
        <div class="way" key={name}>
          <div class="stage">
            <h2>Source</h2>
            <div class="node">
              <strong>{name}</strong>
              <span class="under">{host}</span>
            </div>
          </div>
          <div class="stage">
            <h2>
              <a href="/sources">Feeds</a>
            </h2>
            {status.feeds
              .filter(({ source }) => source === name)
              .map((feed) => {
                const tone = toneOf(status, `feed ${name}/${feed.feed}`, feed.lag);
                return (
                  <a class={`node ${tone}`} href="/sources" key={feed.feed} title={feed.lag.why}>
                    <strong>{feed.feed}</strong>
                    <Mark tone={tone}>{tone === 'bad' ? toneWords.bad : feedLagText(feed.lag)}</Mark>
                    {feed.waiting > 0 ? <span class="under">{feed.waiting} notifications</span> : null}
                  </a>
                );
              })}
          </div>
          <div class="stage">
            <h2>
              <a href="/flows">Flows</a>
            </h2>
            {status.flows
              .filter(({ source }) => source === name)
              .map((flow) => {
                const tone = toneOf(status, `flow ${flow.flow}`, flow.lag);
                return (
                  <a class={`node ${tone}`} href={flowPath(flow.flow)} key={flow.flow} title={flow.lag.why}>
                    <strong>{flow.flow}</strong>
                    <Mark tone={tone}>{flow.pausedReason === null ? toneWords[tone] : 'paused'}</Mark>
                    <span class="under">
                      {[
                        flow.due > 0 ? `${flow.due} waiting` : '',
                        flow.deadLetters > 0 ? `${flow.deadLetters} refused` : '',
                      ]
                        .filter(Boolean)
                        .join(', ') || 'nothing waits'}
                    </span>
                  </a>
                );
              })}
          </div>
          <div class="stage">
            <h2>ERPs</h2>
            {status.flows
              .filter(({ source }) => source === name)
              .map((flow) => {
                const tone: Tone = flow.circuitUntil !== null || flow.pausedKind === 'auth' ? 'bad' : 'good';
                return (
                  <div class={`node ${tone}`} key={flow.flow}>
                    <strong>{connectors[flow.flow] ?? 'not configured here'}</strong>
                    <Mark tone={tone}>{tone === 'bad' ? 'refuses' : 'takes documents'}</Mark>
                  </div>
                );
              })}
          </div>
        </div>
      ))}
      {sources
        .filter(({ name }) => intakes.some(({ source }) => source === name))
        .map(({ name }) => (
          <WayBack key={name} source={name} intakes={intakes.filter(({ source }) => source === name)} status={status} />
        ))}
    </section>
  );
}

/** The way back: suppliers from the ERPs to a source. */
function WayBack({ source, intakes, status }: { source: string; intakes: OverviewAnswer['intakes']; status: Status }) {
  return (
    <div class="way back">
      <div class="stage">
        <h2>ERPs, suppliers</h2>
        {intakes.map(({ intake, connector, readFailures, lastRead }) => (
          <div class={`node ${readFailures > 0 ? 'bad' : ''}`} key={intake}>
            <strong>{connector}</strong>
            <Mark tone={readFailures > 0 ? 'bad' : lastRead === null ? 'still' : 'good'}>
              {readFailures > 0 ? 'cannot be read' : lastRead === null ? 'not read yet' : 'is read'}
            </Mark>
          </div>
        ))}
      </div>
      <div class="stage">
        <h2>
          <a href="/flows">Intakes</a>
        </h2>
        {intakes.map((each) => (
          <a
            class={`node ${needsLook(status.conditions, `intake ${each.intake}`) ? 'bad' : ''}`}
            href={intakePath(each.intake)}
            key={each.intake}
            title={each.lag.why}
          >
            <strong>{each.intake}</strong>
            <IntakeMark intake={each} conditions={status.conditions} />
            <span class="under">
              {[
                each.backlog.suppliers > 0 ? `${numberText(each.backlog.suppliers)} to send` : '',
                each.deadLetters > 0 ? `${numberText(each.deadLetters)} refused` : '',
              ]
                .filter(Boolean)
                .join(', ') || 'nothing waits'}
            </span>
          </a>
        ))}
      </div>
      <div class="stage">
        <h2>Source</h2>
        <div class="node">
          <strong>{source}</strong>
        </div>
      </div>
    </div>
  );
}

/** That a feed in step was read a while ago is no lag: it says so itself. */
export function feedLagText({ inStep, seconds, why }: Status['feeds'][number]['lag']): string {
  if (inStep) return why;
  return seconds === null ? 'not known' : `${durationOf(seconds)} behind`;
}
