/** Refused documents (dead letters), grouped by what the ERP said; sent again one by one, as a group, or all. */
import { useState } from 'preact/hooks';
import type { DeadLettersAnswer } from '#console/api/dead-letters.ts';
import { ActionButton, Dialog, DialogEnd, Empty, Failure, Loading, Mark, PageHead, Time } from '../parts/basics.tsx';
import { kindNames } from '../parts/document-row.tsx';
import { ChoiceFilter, Filters } from '../parts/filter-bar.tsx';
import { documentsPath } from '../parts/paths.ts';
import { Table } from '../parts/table.tsx';
import { useFilters } from '../parts/use-filters.ts';
import { refusedTodo, sentenceOf } from '../parts/words.ts';
import { postCall } from '../state/api.ts';
import { useAnswer } from '../state/use-answer.ts';
import { mayOperate, viewer } from '../state/viewer.ts';

type Group = DeadLettersAnswer['groups'][number];

/** What is about to be replayed: shown in the dialog, and sent with the number that was agreed to. */
interface Choice {
  readonly title: string;
  readonly count: number;
  readonly filter: { flows?: readonly string[]; kinds?: readonly string[]; reason?: string };
}

export function RefusedPage() {
  const filters = useFilters();
  const { flow, kind } = filters.values;
  const { answer, error, reload } = useAnswer<DeadLettersAnswer>('/api/dead-letters', { flow, kind });
  const [choice, setChoice] = useState<Choice>();
  const total = (answer?.groups ?? []).reduce((sum, { count }) => sum + count, 0);
  const all: Choice = {
    title: `All refused documents${flow ? ` of the flow ${flow}` : ''}${kind ? ` of the kind ${kindNames[kind] ?? kind}` : ''}`,
    count: total,
    filter: { ...(flow ? { flows: [flow] } : {}), ...(kind ? { kinds: [kind] } : {}) },
  };
  return (
    <>
      <PageHead title="Refused documents">{total > 0 ? <Mark tone="bad">{total}</Mark> : null}</PageHead>
      <Filters>
        <ChoiceFilter filters={filters} name="flow" label="Flow" choices={viewer.value?.flowNames ?? []} />
        <ChoiceFilter filters={filters} name="kind" label="Kind" choices={Object.entries(kindNames)} />
        {mayOperate() && total > 0 ? (
          <button type="button" class="secondary" onClick={() => setChoice(all)}>
            Send all {total} again
          </button>
        ) : null}
      </Filters>
      <Failure error={error} />
      {answer === undefined && error === undefined ? <Loading /> : null}
      {answer && total === 0 ? (
        <Empty>None: every document is delivered, or will be tried again by itself.</Empty>
      ) : null}
      {answer && total > 0 ? <Groups groups={answer.groups} choose={setChoice} /> : null}
      {choice ? (
        <ReplayDialog
          choice={choice}
          close={() => setChoice(undefined)}
          done={() => {
            setChoice(undefined);
            reload();
          }}
        />
      ) : null}
    </>
  );
}

function Groups({ groups, choose }: { groups: readonly Group[]; choose: (choice: Choice) => void }) {
  const kindOf = ({ kind }: Group) => kindNames[kind] ?? kind;
  return (
    <Table
      label="Refused documents by what was said"
      rows={groups}
      keyOf={({ flow, kind, reason }) => `${flow} ${kind} ${reason}`}
      columns={[
        {
          name: 'What was said',
          kind: 'wide',
          cell: ({ example, errorType }) => (
            <span>
              <strong>{sentenceOf(example)}</strong>
              <span class="under">→ {refusedTodo(errorType)}</span>
            </span>
          ),
        },
        { name: 'Documents', kind: 'number', cell: ({ count }) => count },
        { name: 'Kind', cell: (group) => kindOf(group) },
        { name: 'Flow', cell: ({ flow }) => flow },
        { name: 'First', kind: 'time', cell: ({ first }) => <Time at={first} /> },
        { name: 'Last', kind: 'time', cell: ({ last }) => <Time at={last} /> },
        {
          name: 'Actions',
          cell: (group) => (
            <span class="row-actions">
              <a href={membersPath(group)}>Show</a>
              {mayOperate() ? (
                <button
                  type="button"
                  class="secondary"
                  onClick={() =>
                    choose({
                      title: `${kindOf(group)} documents of the flow ${group.flow} that were refused with: ${group.example}`,
                      count: group.count,
                      filter: { flows: [group.flow], kinds: [group.kind], reason: group.reason },
                    })
                  }
                >
                  Send {group.count === 1 ? 'it' : `these ${group.count}`} again
                </button>
              ) : null}
            </span>
          ),
        },
      ]}
    />
  );
}

/** A role without prices sees no words of an ERP, and so no groups by them. */
function membersPath({ flow, kind, reason }: Group): string {
  const said = viewer.value?.seesPrices === false ? {} : { reason };
  return documentsPath({ flow, kind, state: 'dead letter', ...said });
}

function ReplayDialog({ choice, close, done }: { choice: Choice; close: () => void; done: () => void }) {
  const { title, count, filter } = choice;
  return (
    <Dialog title={count === 1 ? 'Send 1 document again?' : `Send ${count} documents again?`} close={close}>
      <p>{title}</p>
      <p class="quiet">
        Exactly these {count} are sent, also when others begin to match. Each is made anew from what the source says
        now; the ERP is asked what it holds before anything is written, so no object is made twice.
      </p>
      <DialogEnd close={close}>
        <ActionButton
          kind="primary"
          action={async () => {
            await postCall('/api/dead-letters/replay', { ...filter, expected: count, title });
            done();
          }}
        >
          Send {count} again
        </ActionButton>
      </DialogEnd>
    </Dialog>
  );
}
