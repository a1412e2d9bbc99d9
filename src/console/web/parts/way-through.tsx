/** The way from each source to the ERPs, and back, as a picture: each part with its state, and as a link to its page. */
import type { ComponentChildren } from 'preact';
import type { OverviewAnswer } from '#console/api/read-overview.ts';
import { durationOf } from '#console/duration.ts';
import { numberText } from '../state/numbers.ts';
import { Empty, Mark } from './basics.tsx';
import { needsLook } from './conditions.ts';
import { PartMark } from './part-mark.tsx';
import { flowPath, intakePath } from './paths.ts';

type Status = OverviewAnswer['status'];

export function WayThrough({ answer: { status, sources, connectors, intakes } }: { answer: OverviewAnswer }) {
  if (sources.length === 0) return <Empty>No source is configured (bridge.sources).</Empty>;
  const { conditions } = status;
  const ofSource = (name: string) => (part: { source: string }) => part.source === name;
  return (
    <section aria-label="The way through">
      {sources.map(({ name, host }) => (
        <div class="way" key={name}>
          <Stage title="Source">
            <div class="node">
              <strong>{name}</strong>
              <span class="under">{host}</span>
            </div>
          </Stage>
          <Stage title={<a href="/sources">Feeds</a>}>
            {status.feeds.filter(ofSource(name)).map(({ feed, lag, waiting }) => (
              <Node
                key={feed}
                path="/sources"
                name={feed}
                why={lag.why}
                mark={<FeedMark subject={`feed ${name}/${feed}`} lag={lag} conditions={conditions} />}
                under={waiting > 0 ? [`${waiting} notifications`] : []}
              />
            ))}
          </Stage>
          <Stage title={<a href="/flows">Flows to the ERPs</a>}>
            {status.flows.filter(ofSource(name)).map((flow) => (
              <Node
                key={flow.flow}
                path={flowPath(flow.flow)}
                name={flow.flow}
                why={flow.lag.why}
                mark={<PartMark subject={`flow ${flow.flow}`} part={flow} conditions={conditions} />}
                under={[
                  connectors[flow.flow] ?? 'not configured here',
                  waitingText('waiting', flow.due),
                  waitingText('refused', flow.deadLetters),
                ]}
              />
            ))}
          </Stage>
          {intakes.some(ofSource(name)) ? (
            <Stage title={<a href="/flows">Intakes from the ERPs</a>}>
              {intakes.filter(ofSource(name)).map((intake) => (
                <Node
                  key={intake.intake}
                  path={intakePath(intake.intake)}
                  name={intake.intake}
                  why={intake.lag.why}
                  mark={<PartMark subject={`intake ${intake.intake}`} part={intake} conditions={conditions} />}
                  under={[
                    intake.connector,
                    intake.readFailures > 0 ? 'cannot be read' : '',
                    waitingText('to send', intake.backlog.suppliers),
                    waitingText('refused', intake.deadLetters),
                  ]}
                />
              ))}
            </Stage>
          ) : null}
        </div>
      ))}
    </section>
  );
}

function Stage({ title, children }: { title: ComponentChildren; children: ComponentChildren }) {
  return (
    <div class="stage">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

function Node({
  path,
  name,
  why,
  mark,
  under,
}: {
  path: string;
  name: string;
  why: string;
  mark: ComponentChildren;
  under: readonly string[];
}) {
  return (
    <a class="node" href={path} title={why}>
      <strong>{name}</strong>
      {mark}
      <span class="under">{under.filter(Boolean).join(' · ')}</span>
    </a>
  );
}

function waitingText(what: string, count: number): string {
  return count > 0 ? `${numberText(count)} ${what}` : '';
}

/** That a feed in step was read a while ago is no lag: it says so itself. */
export function FeedMark({
  subject,
  lag: { inStep, seconds, why },
  conditions,
}: {
  subject: string;
  lag: Status['feeds'][number]['lag'];
  conditions: Status['conditions'];
}) {
  const behind = seconds === null ? 'not known' : `${durationOf(seconds)} behind`;
  return <Mark tone={needsLook(conditions, subject) ? 'bad' : inStep ? 'good' : 'busy'}>{inStep ? why : behind}</Mark>;
}
