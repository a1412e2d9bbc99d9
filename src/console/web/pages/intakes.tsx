/** All intakes, the way back: which suppliers go from an ERP to a service, and how far each has come. */
import type { IntakesAnswer } from '#console/api/intakes.ts';
import { Empty, Failure, Loading, PageHead, Time } from '../parts/basics.tsx';
import { IntakeMark } from '../parts/intake-mark.tsx';
import { intakePath } from '../parts/paths.ts';
import { Table } from '../parts/table.tsx';
import { numberText } from '../state/numbers.ts';
import { useAnswer } from '../state/use-answer.ts';

export function IntakesPage() {
  const { answer, error, busy } = useAnswer<IntakesAnswer>('/api/intakes');
  return (
    <>
      <PageHead title="Intakes" />
      <p class="quiet lead">The way back: suppliers that an ERP holds, and that the service should hold, too.</p>
      <Failure error={error} />
      {answer === undefined && error === undefined ? <Loading /> : null}
      {answer?.intakes.length === 0 ? <Empty>No intake is configured (bridge.intakes).</Empty> : null}
      {answer && answer.intakes.length > 0 ? (
        <Table
          label="Intakes"
          busy={busy}
          rows={answer.intakes}
          keyOf={({ intake }) => intake}
          columns={[
            {
              name: 'Intake',
              kind: 'wide',
              cell: ({ intake, connector, source }) => (
                <a class="row-link" href={intakePath(intake)}>
                  <strong>{intake}</strong>
                  <span class="under">
                    {connector} → {source}
                  </span>
                </a>
              ),
            },
            {
              name: 'State',
              cell: (intake) => (
                <span class="state-cell">
                  <IntakeMark intake={intake} />
                  <span class="under">{intake.pausedReason ?? intake.lag.why}</span>
                </span>
              ),
            },
            { name: 'Last read', kind: 'time', cell: ({ lastRead }) => <Time at={lastRead} /> },
            { name: 'To send', kind: 'number', cell: ({ backlog }) => numberText(backlog.suppliers) },
            { name: 'Being processed', kind: 'number', cell: ({ inSubmissions }) => numberText(inSubmissions) },
            { name: 'Refused', kind: 'number', cell: ({ deadLetters }) => numberText(deadLetters) },
          ]}
        />
      ) : null}
    </>
  );
}
