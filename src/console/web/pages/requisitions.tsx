/** The requisitions of an intake: which event each is in, and its life from the ERP to the purchase orders that name it. */
import { useState } from 'preact/hooks';
import type { RequisitionAnswer, RequisitionsAnswer } from '#console/api/intakes.ts';
import { Dialog, DialogEnd, Empty, Failure, Field, Loading, Mark, Time } from '../parts/basics.tsx';
import { Table } from '../parts/table.tsx';
import { useAnswer } from '../state/use-answer.ts';

type Requisition = RequisitionsAnswer['requisitions'][number];

export function Requisitions({ intake }: { intake: string }) {
  const [text, setText] = useState('');
  const [shown, setShown] = useState<Requisition>();
  const asked = text.trim() === '' ? { intake } : { intake, text: text.trim() };
  const { answer, error } = useAnswer<RequisitionsAnswer>('/api/intake/requisitions', asked);
  return (
    <section>
      <div class="section-head">
        <h2>Requisitions</h2>
        <Field label="Number or name" type="search" value={text} set={setText} />
      </div>
      <Failure error={error} />
      {answer === undefined ? (
        <Loading />
      ) : answer.requisitions.length === 0 ? (
        <Empty>{text === '' ? 'None was read yet.' : 'None has this number or name.'}</Empty>
      ) : (
        <Table
          label="Requisitions"
          rows={answer.requisitions}
          keyOf={({ erpKey }) => erpKey}
          columns={[
            {
              name: 'Requisition',
              kind: 'wide',
              cell: (requisition) => (
                <span>
                  <button type="button" class="plain" onClick={() => setShown(requisition)}>
                    {requisition.erpKey}
                  </button>
                  <span class="under">{requisition.name ?? 'cannot be read'}</span>
                </span>
              ),
            },
            { name: 'In the ERP', cell: (requisition) => stateInErp(requisition) },
            { name: 'At the service', kind: 'wide', cell: (requisition) => <AtService requisition={requisition} /> },
            { name: 'Read', kind: 'time', cell: ({ seen }) => <Time at={seen} /> },
          ]}
        />
      )}
      {answer?.hasMore ? <p class="quiet">Only the newest are shown.</p> : null}
      {shown ? <Life intake={intake} requisition={shown} close={() => setShown(undefined)} /> : null}
    </section>
  );
}

function stateInErp({ open, missing }: Requisition): string {
  if (missing) return open ? 'missing since the last list' : 'deleted';
  return open ? 'open' : 'not open';
}

const eventWords: Readonly<Record<string, string>> = {
  gathering: 'waits for others of its group',
  making: 'is being made',
  held: 'may be made or not',
  failed: 'was refused',
};

function AtService({ requisition: { event, errorType } }: { requisition: Requisition }) {
  return (
    <span>
      {event === null
        ? 'nothing'
        : event.live
          ? (event.name ?? 'its event')
          : `taken out of ${event.name ?? 'its event'}`}
      {event === null ? null : (
        <span class="under">
          {eventWords[event.state] ?? event.status ?? (event.make === 'request' ? 'request' : 'DRAFT')}
        </span>
      )}
      {errorType === null ? null : <Mark tone="bad">{errorType}</Mark>}
    </span>
  );
}

function Life({ intake, requisition, close }: { intake: string; requisition: Requisition; close: () => void }) {
  const { erpKey, name } = requisition;
  const { answer, error } = useAnswer<RequisitionAnswer>('/api/intake/requisition', { intake, key: erpKey });
  return (
    <Dialog title={`${erpKey}: ${name ?? ''}`} close={close}>
      <Failure error={error} />
      {answer === undefined ? (
        <Loading />
      ) : (
        <ol>
          {answer.life.map(({ at, step, text }, index) => (
            <li key={index}>
              <Time at={at} /> <strong>{step}</strong> {text}
            </li>
          ))}
        </ol>
      )}
      <DialogEnd close={close} />
    </Dialog>
  );
}
