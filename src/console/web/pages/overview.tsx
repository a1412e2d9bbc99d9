/** Is all well? The way through, with the state of each part, and what happened last. */
import type { OverviewAnswer } from '#console/api/read-overview.ts';
import { Empty, Failure, Loading, PageHead } from '../parts/basics.tsx';
import { conditionPath } from '../parts/conditions.ts';
import { documentColumns, keyOfRow } from '../parts/document-row.tsx';
import { documentsPath } from '../parts/paths.ts';
import { Table } from '../parts/table.tsx';
import { WayThrough } from '../parts/way-through.tsx';
import { useAnswer } from '../state/use-answer.ts';
import { viewer } from '../state/viewer.ts';

const conditionsShown = 30;

export function OverviewPage() {
  const { answer, error } = useAnswer<OverviewAnswer>('/api/overview');
  return (
    <>
      <PageHead title="Overview" />
      <Failure error={error} />
      {answer === undefined && error === undefined ? <Loading /> : null}
      {answer ? <Shown answer={answer} /> : null}
    </>
  );
}

function Shown({ answer }: { answer: OverviewAnswer }) {
  const { latest, refused } = answer;
  return (
    <>
      <Verdict answer={answer} />
      <WayThrough answer={answer} />
      {refused.length === 0 ? null : (
        <>
          <h2>
            <a href="/refused">Refused</a>
          </h2>
          <Documents label="Refused" rows={refused} />
        </>
      )}
      <h2>Delivered last</h2>
      {latest.length === 0 ? (
        <Empty>Nothing was delivered yet.</Empty>
      ) : (
        <Documents label="Delivered last" rows={latest} />
      )}
    </>
  );
}

function Documents({ label, rows }: { label: string; rows: OverviewAnswer['latest'] }) {
  const columns = documentColumns({ amounts: viewer.value?.seesPrices !== false });
  return <Table label={label} rows={rows} keyOf={keyOfRow} columns={columns} />;
}

/** One sentence: all is well, or what is not. */
function Verdict({ answer: { status } }: { answer: OverviewAnswer }) {
  const { conditions } = status;
  const due = status.flows.reduce((sum, flow) => sum + flow.due, 0);
  if (conditions.length > 0)
    return (
      <div class="verdict bad" role="status">
        <p>
          <strong>{conditions.length === 1 ? 'One thing needs a look.' : 'Some things need a look.'}</strong>
        </p>
        <ul>
          {conditions.slice(0, conditionsShown).map((condition) => (
            <li key={`${condition.kind} ${condition.subject}`}>
              <a href={conditionPath(condition)}>{condition.summary}</a>
              <details>
                <summary>What to do</summary>
                {condition.action}
              </details>
            </li>
          ))}
        </ul>
        {conditions.length > conditionsShown ? <p>{conditions.length - conditionsShown} more.</p> : null}
      </div>
    );
  if (due > 0 || [...status.feeds, ...status.flows].some(({ lag }) => !lag.inStep))
    return (
      <div class="verdict busy" role="status">
        <p>
          <strong>All is well; the bridge is working.</strong>{' '}
          {due > 0 ? (
            <a href={documentsPath({ state: 'waiting' })}>
              {due === 1 ? '1 document is on its way.' : `${due} documents are on their way.`}
            </a>
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
