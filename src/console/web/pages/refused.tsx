/** Refused documents (dead letters), grouped by what the ERP said; sent again one by one, as a group, or all. */
import { useState } from 'preact/hooks';
import type { DeadLettersAnswer, ReplayStarted } from '#console/api/dead-letters.ts';
import type { DocumentsAnswer } from '#console/api/list-documents-call.ts';
import {
  ActionButton,
  Dialog,
  DialogEnd,
  Empty,
  Failure,
  Loading,
  Mark,
  PageHead,
  Said,
  Time,
} from '../parts/basics.tsx';
import { keyOfRow, kindNames, titleOf } from '../parts/document-row.tsx';
import { ChoiceFilter, Filters } from '../parts/filter-bar.tsx';
import { documentPath, documentsPath } from '../parts/paths.ts';
import { Table } from '../parts/table.tsx';
import { useFilters } from '../parts/use-filters.ts';
import { refusedTodo, sentenceOf } from '../parts/words.ts';
import { postCall } from '../state/api.ts';
import { useAnswer } from '../state/use-answer.ts';
import { mayOperate, viewer } from '../state/viewer.ts';

type Group = DeadLettersAnswer['groups'][number];
type Replay = DeadLettersAnswer['replays'][number];

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
      {answer ? <Replays replays={answer.replays} reload={reload} /> : null}
      {answer && total === 0 ? (
        <Empty>None: every document is delivered, or will be tried again by itself.</Empty>
      ) : null}
      {(answer?.groups ?? []).map((group) => (
        <GroupCard key={`${group.flow} ${group.kind} ${group.reason}`} group={group} choose={setChoice} />
      ))}
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

function GroupCard({ group, choose }: { group: Group; choose: (choice: Choice) => void }) {
  const [open, setOpen] = useState(false);
  const { flow, kind, reason, example, count, first, last, errorType } = group;
  const kindName = kindNames[kind] ?? kind;
  return (
    <section class="card group">
      <div class="group-head">
        <span class="count">{count}</span>
        <div>
          <h2>{sentenceOf(example)}</h2>
          <p class="todo">→ {refusedTodo(errorType)}</p>
          <p class="under">
            {kindName} · {flow}
            {' · '}first <Time at={first} />
            {count > 1 ? (
              <>
                , last <Time at={last} />
              </>
            ) : null}
          </p>
        </div>
        <div class="group-actions">
          <button type="button" class="plain" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? 'Hide' : 'Show'}
          </button>
          {mayOperate() ? (
            <button
              type="button"
              class="secondary"
              onClick={() =>
                choose({
                  title: `${kindName} documents of the flow ${flow} that were refused with: ${example}`,
                  count,
                  filter: { flows: [flow], kinds: [kind], reason },
                })
              }
            >
              Send {count === 1 ? 'it' : `these ${count}`} again
            </button>
          ) : null}
        </div>
      </div>
      {open ? <Members group={group} /> : null}
    </section>
  );
}

/** The documents of the group, by their ERP's words. */
function Members({ group: { flow, kind, example } }: { group: Group }) {
  const { answer, error } = useAnswer<DocumentsAnswer>('/api/documents', { flow, kind, state: 'dead letter' });
  if (!answer) return error === undefined ? <Loading /> : <Failure error={error} />;
  const documents = answer.documents.filter(({ why }) => alike(why ?? '', example));
  return (
    <>
      <Table
        label="Documents of the group"
        rows={documents}
        keyOf={keyOfRow}
        columns={[
          {
            name: 'Document',
            kind: 'wide',
            cell: (row) => (
              <span>
                <a href={documentPath(row)}>{titleOf(row)}</a>
                <span class="under">{row.kind === 'supplier' ? row.supplierExternalId : row.supplierName}</span>
                {row.documentNote?.lookedAfterBy ? (
                  <Mark tone="busy">{row.documentNote.lookedAfterBy} looks after it</Mark>
                ) : null}
              </span>
            ),
          },
          { name: 'What was said', kind: 'wide', cell: (row) => <Said words={row.why ?? ''} tone="plain" /> },
        ]}
      />
      {answer.next ? (
        <a href={documentsPath({ flow, kind, state: 'dead letter' })}>All refused documents of this flow and kind</a>
      ) : null}
    </>
  );
}

/** As the server groups: numbers and ids stand for any other. */
function alike(one: string, other: string): boolean {
  const shape = (text: string) =>
    text
      .toLowerCase()
      .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, '#')
      .replaceAll(/[0-9]+/g, '#')
      .slice(0, 500);
  return shape(one) === shape(other);
}

function ReplayDialog({ choice, close, done }: { choice: Choice; close: () => void; done: () => void }) {
  const { title, count, filter } = choice;
  return (
    <Dialog title={count === 1 ? 'Send 1 document again?' : `Send ${count} documents again?`} close={close}>
      <p>{title}</p>
      <p class="quiet">
        Exactly these {count} are sent, also when others begin to match. Each is made anew from what the source says
        now; the ERP is asked what it holds before anything is written, so no object is made twice. You can stop it.
      </p>
      <DialogEnd close={close}>
        <ActionButton
          kind="primary"
          action={async () => {
            await postCall<ReplayStarted>('/api/dead-letters/replay', { ...filter, expected: count, title });
            done();
          }}
        >
          Send {count} again
        </ActionButton>
      </DialogEnd>
    </Dialog>
  );
}

function Replays({ replays, reload }: { replays: readonly Replay[]; reload: () => void }) {
  if (replays.length === 0) return null;
  return (
    <section>
      <h2>Sent again</h2>
      <Table
        label="Sent again"
        rows={replays}
        keyOf={({ id }) => String(id)}
        columns={[
          {
            name: 'What',
            kind: 'wide',
            cell: ({ title, askedBy, asked, stopped, handedOver }) => (
              <span>
                {title}
                <span class="under">
                  {askedBy}, <Time at={asked} />
                  {stopped ? `, stopped after ${handedOver}` : ''}
                </span>
              </span>
            ),
          },
          {
            name: 'Progress',
            cell: ({ title, total, delivered, refused }) => (
              <span>
                <progress max={total} value={delivered + refused} aria-label={`Progress of ${title}`} />
                <span class="under">
                  {delivered + refused} of {total} through{refused > 0 ? `, ${refused} refused again` : ''}
                </span>
              </span>
            ),
          },
          {
            name: 'Action',
            cell: ({ id, stopped, finished }) =>
              stopped === null && finished === null && mayOperate() ? (
                <ActionButton
                  action={async () => {
                    await postCall('/api/dead-letters/stop', { id });
                    reload();
                  }}
                >
                  Stop
                </ActionButton>
              ) : null,
          },
        ]}
      />
    </section>
  );
}
