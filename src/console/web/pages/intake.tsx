/** One intake: its backlog and when it will be through, what it would send, archives to agree to, dead letters. */
import { useState } from 'preact/hooks';
import type { IntakeAnswer, IntakePlanAnswer } from '#console/api/intakes.ts';
import {
  ActionButton,
  Dialog,
  DialogEnd,
  Empty,
  Facts,
  Failure,
  Field,
  Mark,
  PageHead,
  Time,
  Waiting,
} from '../parts/basics.tsx';
import { needsLook } from '../parts/conditions.ts';
import { PartMark } from '../parts/part-mark.tsx';
import { Steering } from '../parts/steering.tsx';
import { Table } from '../parts/table.tsx';
import { postCall } from '../state/api.ts';
import { numberText } from '../state/numbers.ts';
import { useAnswer } from '../state/use-answer.ts';
import { mayOperate } from '../state/viewer.ts';
import { Requisitions } from './requisitions.tsx';

const contactWords = { add: 'added', replace: 'replaced', leave: 'left alone' } as const;

type Intake = IntakeAnswer['intake'];
type DeadLetter = IntakeAnswer['deadLetters'][number];
type Planned = IntakePlanAnswer['changes'][number];

export function IntakePage({ intake: name }: { intake: string }) {
  const { answer, error, reload } = useAnswer<IntakeAnswer>('/api/intake', { intake: name });
  if (!answer) return <Waiting title={name} error={error} />;
  const { intake, settings, conditions } = answer;
  const isOfSuppliers = intake.stream === 'supplier';
  return (
    <>
      <PageHead title={intake.intake}>
        <PartMark subject={`intake ${name}`} part={intake} conditions={conditions} />
      </PageHead>
      <Failure error={error} />
      <Facts
        facts={{
          From: intake.connector,
          To: intake.source,
          'The ERP is master of': isOfSuppliers ? settings.owns.join(', ') || 'nothing' : undefined,
          Contacts: isOfSuppliers ? contactWords[settings.contacts] : undefined,
          'Last read': <Time at={intake.lastRead} />,
          Next: <Time at={intake.nextRead} />,
        }}
      />
      <p class={needsLook(conditions, `intake ${name}`) ? 'failure' : 'quiet'}>
        {intake.pausedReason === null ? (
          !intake.lag.inStep && intake.lag.why
        ) : (
          <>
            Paused since <Time at={intake.pausedAt} />: {intake.pausedReason}
          </>
        )}
      </p>
      {mayOperate() ? <IntakeSteering intake={intake} reload={reload} /> : null}
      <Backlog intake={intake} />
      {intake.stream === 'requisition' ? <Requisitions intake={intake.intake} /> : null}
      <DeadLetters answer={answer} reload={reload} />
    </>
  );
}

/** `withdrawals` are requisitions that the ERP has deleted; `archives` are suppliers, who are shown before. */
function IntakeSteering({ intake, reload }: { intake: Intake; reload: () => void }) {
  const { intake: name, pausedReason, pausedKind } = intake;
  const plan = async (asked: object) => (
    <Plan plan={await postCall<IntakePlanAnswer>('/api/intakes/plan', { intake: name, ...asked })} />
  );
  const resumeBy =
    pausedKind === 'withdrawals'
      ? ({ button: 'They were deleted in the ERP: agree and resume', kind: 'danger', agree: true } as const)
      : { button: pausedKind === 'first-run' ? 'Agree and resume' : 'Resume' };
  return (
    <Steering
      name={name}
      pausedReason={pausedReason}
      pauseMeans="The ERP is still read, and open submissions are looked after. Nothing more is submitted until somebody resumes the intake."
      agreement={
        pausedKind === 'archives'
          ? {
              button: 'Look at the archivings',
              title: 'Archivings to agree to',
              ask: 'Show which would be archived',
              show: () => plan({ archives: true, limit: 500 }),
            }
          : undefined
      }
      resumeBy={resumeBy}
      question="What would be sent now?"
      plan={() => plan({})}
      pause={(reason) => postCall('/api/intakes/pause', { intake: name, reason })}
      resume={(agreeToArchive) => postCall('/api/intakes/resume', { intake: name, agreeToArchive })}
      reload={reload}
    >
      <ActionButton
        action={async () => {
          await postCall('/api/intakes/read', { intake: name });
          reload();
        }}
      >
        Read the ERP now
      </ActionButton>
    </Steering>
  );
}

const actionWords: Readonly<Record<Planned['action'], string>> = {
  create: 'would be created',
  update: 'would be changed',
  archive: 'would be archived',
};

function Plan({ plan: { changes, events } }: { plan: IntakePlanAnswer }) {
  if (events.length > 0)
    return (
      <ul class="plan" role="status">
        {events.map(({ action, name, lots, requisitions, ready }) => (
          <li key={`${name} ${requisitions.join(' ')}`}>
            <Mark tone="busy">{actionWords[action]}</Mark>
            <strong class="planned-name">{name}</strong>
            <span class="what">
              {numberText(lots)} {lots === 1 ? 'lot' : 'lots'} of {requisitions.join(', ')}, from <Time at={ready} /> on
            </span>
          </li>
        ))}
      </ul>
    );
  if (changes.length === 0) return <Empty>Nothing would be sent.</Empty>;
  return (
    <div class="plan" role="status">
      <ul>
        {changes.map(({ action, erpKey, key, name, text }) => (
          <li key={erpKey}>
            <Mark tone={action === 'archive' ? 'bad' : 'busy'}>{actionWords[action]}</Mark>
            <strong class="planned-name">{name}</strong>
            <span class="under">
              {erpKey}
              {key === erpKey ? '' : ` → ${key}`}
            </span>
            <span class="what">{text}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Backlog({
  intake: { creates, updates, archives, toCompare, inSubmissions, submissions, backlog, unreadable },
}: {
  intake: Intake;
}) {
  const parts = [
    ['To compare', toCompare],
    ['To create', creates],
    ['To change', updates],
    ['To archive', archives],
    ['Being processed by the service', inSubmissions],
    ['Open submissions', submissions],
    ['Left out, without a number', unreadable],
  ] as const;
  return (
    <section>
      <h2>Backlog</h2>
      {parts.every(([, count]) => count === 0) ? (
        <Empty>Nothing waits: the service holds what the ERP holds.</Empty>
      ) : (
        <>
          <Facts
            facts={Object.fromEntries(
              parts.map(([label, count]) => [label, count > 0 ? numberText(count) : undefined]),
            )}
          />
          {backlog.suppliers > 0 ? (
            <p>
              {numberText(backlog.suppliers)} {backlog.suppliers === 1 ? 'supplier' : 'suppliers'} in{' '}
              {numberText(backlog.submissions)} {backlog.submissions === 1 ? 'submission' : 'submissions'}
              {backlog.end === null ? (
                '.'
              ) : (
                <>
                  , done about <Time at={backlog.end} />.
                </>
              )}
            </p>
          ) : null}
        </>
      )}
    </section>
  );
}

const errorWords: Readonly<Record<string, string>> = {
  data: 'refused',
  ambiguous: 'several fit',
  overlap: 'belongs to another intake',
  'not-kept': 'not kept by the service',
  uncertain: 'may have been made',
  withdrawn: 'withdrawn in the ERP',
  changed: 'changed in the ERP',
  files: 'files were refused',
  'not-told': 'not told to the ERP',
};

function DeadLetters({
  answer: {
    intake: { intake, stream, deadLetters: count },
    deadLetters,
  },
  reload,
}: {
  answer: IntakeAnswer;
  reload: () => void;
}) {
  const [linked, setLinked] = useState<DeadLetter>();
  const replay = async (erpKey?: string) => {
    await postCall('/api/intakes/replay', { intake, ...(erpKey === undefined ? {} : { erpKey }) });
    reload();
  };
  return (
    <section>
      <div class="section-head">
        <h2>Refused, for a person to look at</h2>
        {mayOperate() && count > 0 ? (
          <ActionButton action={() => replay()}>Compare all {numberText(count)} again</ActionButton>
        ) : null}
      </div>
      {deadLetters.length === 0 ? (
        <Empty>
          {stream === 'supplier' ? 'None: the service has refused no supplier.' : 'None: nothing was refused.'}
        </Empty>
      ) : (
        <Table
          label="Refused"
          rows={deadLetters}
          keyOf={({ erpKey }) => erpKey}
          columns={[
            {
              name: stream === 'supplier' ? 'Supplier' : 'Requisition',
              kind: 'wide',
              cell: ({ name, erpKey, key }) => (
                <span>
                  <strong>{name ?? erpKey}</strong>
                  <span class="under">
                    {erpKey}
                    {key === null || key === erpKey ? '' : ` → ${key}`}
                  </span>
                </span>
              ),
            },
            { name: 'Why', cell: ({ errorType }) => <Mark tone="bad">{errorWords[errorType] ?? errorType}</Mark> },
            { name: 'What was said', kind: 'wide', cell: ({ lastError }) => lastError },
            { name: 'Since', kind: 'time', cell: ({ deadSince }) => <Time at={deadSince} /> },
            ...(mayOperate()
              ? [
                  {
                    name: 'Actions',
                    cell: (letter: DeadLetter) =>
                      letter.errorType === 'ambiguous' || letter.errorType === 'uncertain' ? (
                        <button type="button" class="plain" onClick={() => setLinked(letter)}>
                          Say which it is
                        </button>
                      ) : (
                        <ActionButton kind="plain" action={() => replay(letter.erpKey)}>
                          Compare again
                        </ActionButton>
                      ),
                  },
                ]
              : []),
          ]}
        />
      )}
      {count > deadLetters.length ? (
        <p class="quiet">
          The newest {deadLetters.length} of {numberText(count)}.
        </p>
      ) : null}
      {linked ? (
        <LinkDialog
          letter={linked}
          close={() => setLinked(undefined)}
          done={() => {
            setLinked(undefined);
            reload();
          }}
        />
      ) : null}
    </section>
  );
}

/** Asks which supplier of the service it is, where several fit; or which event was made of a requisition. */
function LinkDialog({
  letter: { intake, erpKey, name, lastError, errorType },
  close,
  done,
}: {
  letter: DeadLetter;
  close: () => void;
  done: () => void;
}) {
  const [key, setKey] = useState('');
  const isEvent = errorType === 'uncertain';
  const link = async (chosen: object) => {
    await postCall('/api/intakes/link', { intake, erpKey, ...chosen });
    done();
  };
  return (
    <Dialog title={isEvent ? `What became of ${erpKey}?` : `Which supplier is ${name ?? erpKey}?`} close={close}>
      <p>{lastError}</p>
      <Field
        label={isEvent ? 'Id of the event at the service' : 'External id of the supplier at the service'}
        value={key}
        set={setKey}
      />
      <DialogEnd close={close}>
        <ActionButton action={() => link({})}>{isEvent ? 'It was not made: make it' : 'It is a new one'}</ActionButton>
        <ActionButton kind="primary" disabled={key.trim() === ''} action={() => link({ key })}>
          It is this one
        </ActionButton>
      </DialogEnd>
    </Dialog>
  );
}
