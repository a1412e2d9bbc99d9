/** One document: where it stands, what it says, what happened to it, and what can be done. */
import { useState } from 'preact/hooks';
import type { PlanAnswer } from '#console/api/plan-documents.ts';
import type { DocumentAnswer, VersionAnswer } from '#console/api/read-document.ts';
import {
  ActionButton,
  CopyButton,
  Dialog,
  DialogEnd,
  Empty,
  Facts,
  Failure,
  Field,
  Ids,
  PageHead,
  Reference,
  Said,
  StateMark,
  Tabs,
  Time,
  Waiting,
} from '../parts/basics.tsx';
import { Differences } from '../parts/differences.tsx';
import { DocumentFields } from '../parts/document-fields.tsx';
import { kindNames, titleOf } from '../parts/document-row.tsx';
import { eventPath, flowPath, supplierPath } from '../parts/paths.ts';
import { PlanResult } from '../parts/plan-result.tsx';
import { Table } from '../parts/table.tsx';
import { refusedTodo } from '../parts/words.ts';
import { get, postCall } from '../state/api.ts';
import { moneyText } from '../state/numbers.ts';
import { useAnswer } from '../state/use-answer.ts';
import { mayOperate, viewer } from '../state/viewer.ts';

interface Place {
  readonly flow: string;
  readonly kind: string;
  readonly key: string;
}

export function DocumentPage({ flow, kind, key: given, params }: Place & { params?: Record<string, string> }) {
  const key = params?.['key'] ?? given;
  const place = { flow, kind, key };
  const { answer, error, reload } = useAnswer<DocumentAnswer>('/api/document', place);
  if (answer === undefined) return <Waiting title="Document" error={error} />;
  return <Shown answer={answer} place={place} error={error} reload={reload} />;
}

const views = ['fields', 'versions', 'raw'] as const;

function Shown({
  answer,
  place,
  error,
  reload,
}: {
  answer: DocumentAnswer;
  place: Place;
  error: string | undefined;
  reload: () => void;
}) {
  const { document, now, timeline, versions } = answer;
  const [view, setView] = useState<(typeof views)[number]>('fields');
  const isRefused = document.state === 'dead letter';
  return (
    <>
      <PageHead title={titleOf(document)}>
        <span class="kind">{kindNames[document.kind] ?? document.kind}</span>
        <StateMark state={document.state} />
        <Ids
          ids={{
            key: document.key,
            event: document.sourcingEvent,
            supplier: document.supplier,
            pull: document.pull,
          }}
        />
      </PageHead>
      <Failure error={error} />
      <Facts
        facts={{
          Supplier:
            document.supplierName && document.supplier ? (
              <a href={supplierPath(document.supplier)}>{document.supplierName}</a>
            ) : (
              document.supplierName
            ),
          Event: document.sourcingEvent ? (
            <a href={eventPath(document.source, document.sourcingEvent)}>
              {document.eventReference ?? document.eventName ?? 'event'}
            </a>
          ) : null,
          'In the ERP as': <Reference reference={document.reference} url={document.url} />,
          Flow: <a href={flowPath(document.flow)}>{document.flow}</a>,
          Delivered: <Time at={document.delivered} />,
          Next: document.until ? <Time at={document.until} /> : null,
        }}
      />
      {document.why && document.state !== 'delivered' ? (
        <Said
          words={document.why}
          {...(isRefused ? { todo: refusedTodo() } : {})}
          tone={isRefused ? 'failure' : 'note'}
        />
      ) : null}
      {isRefused || document.documentNote ? <Note note={document.documentNote} place={place} reload={reload} /> : null}
      {mayOperate() ? <Actions place={place} reload={reload} /> : null}
      <Tabs label="What is shown of the document" names={views} chosen={view} choose={setView} />
      {view === 'fields' ? <Fields now={now} /> : null}
      {view === 'versions' ? (
        <Versions versions={versions} now={now} place={place} isSettled={document.state === 'delivered'} />
      ) : null}
      {view === 'raw' ? <Raw document={now.document ?? null} note={now.note} /> : null}
      {view === 'fields' ? (
        <section>
          <h2>What happened</h2>
          <TimelineView timeline={timeline} place={place} />
        </section>
      ) : null}
    </>
  );
}

function Actions({ place, reload }: { place: Place; reload: () => void }) {
  const [plan, setPlan] = useState<PlanAnswer>();
  const [replayed, setReplayed] = useState(false);
  const { flow, kind, key } = place;
  return (
    <div class="actions">
      <ActionButton
        action={async () => setPlan(await postCall<PlanAnswer>('/api/plan', { flow, document: { kind, key } }))}
      >
        Would it go through now?
      </ActionButton>
      <ActionButton
        action={async () => {
          await postCall('/api/document/replay', place);
          setReplayed(true);
          reload();
        }}
      >
        Send it again
      </ActionButton>
      {replayed ? (
        <span role="status">It is due again: the ERP is asked what it holds, then it is written.</span>
      ) : null}
      {plan ? <PlanResult plan={plan} /> : null}
    </div>
  );
}

/** Who looks after a refused document, and what was decided; the audit log has the notes before. */
function Note({
  note,
  place,
  reload,
}: {
  note: DocumentAnswer['document']['documentNote'];
  place: Place;
  reload: () => void;
}) {
  const [asks, setAsks] = useState(false);
  const [lookedAfterBy, setLookedAfterBy] = useState('');
  const [decision, setDecision] = useState('');
  const ask = () => {
    setLookedAfterBy(note?.lookedAfterBy ?? viewer.value?.name ?? '');
    setDecision(note?.decision ?? '');
    setAsks(true);
  };
  const close = () => setAsks(false);
  return (
    <div class="document-note">
      {note ? (
        <p>
          <strong>{note.lookedAfterBy ? `${note.lookedAfterBy} looks after it.` : 'Nobody looks after it.'}</strong>{' '}
          {note.decision}{' '}
          <span class="under">
            Noted by {note.notedBy}, <Time at={note.noted} />
          </span>
        </p>
      ) : (
        <p class="quiet">Nobody looks after it yet.</p>
      )}
      {mayOperate() ? (
        <button type="button" class="plain" onClick={ask}>
          {note ? 'Change the note' : 'Add a note'}
        </button>
      ) : null}
      {asks ? (
        <Dialog title="Note" close={close}>
          <Field label="Who looks after it" maxlength={100} value={lookedAfterBy} set={setLookedAfterBy} />
          <label class="field">
            <span>What was decided</span>
            <textarea
              rows={4}
              maxLength={2_000}
              value={decision}
              onInput={({ currentTarget }) => setDecision(currentTarget.value)}
            />
          </label>
          <DialogEnd close={close}>
            <ActionButton
              kind="primary"
              action={async () => {
                await postCall('/api/document/note', { ...place, lookedAfterBy, decision });
                close();
                reload();
              }}
            >
              Save
            </ActionButton>
          </DialogEnd>
        </Dialog>
      ) : null}
    </div>
  );
}

function Fields({ now }: { now: DocumentAnswer['now'] }) {
  if (now.document === undefined) return <Empty>The document cannot be made now: {now.note}</Empty>;
  return (
    <>
      {now.note ? <p class="note">{now.note}</p> : null}
      <DocumentFields document={now.document} />
    </>
  );
}

const stepTones: Readonly<Record<string, string>> = { 'not made': 'bad', held: 'still', waits: 'busy', sent: 'busy' };

function TimelineView({ timeline, place }: { timeline: DocumentAnswer['timeline']; place: Place }) {
  const [older, setOlder] = useState<DocumentAnswer['timeline'][]>([]);
  const pages = [timeline, ...older];
  const before = pages.at(-1)?.before ?? null;
  const entries = pages.flatMap((page) => page.entries);
  if (entries.length === 0) return <Empty>Nothing was tried yet.</Empty>;
  return (
    <>
      <ol class="timeline">
        {entries.map((entry, index) => (
          <li
            key={`${entry.at} ${entry.step} ${index}`}
            class={stepTones[entry.step] ?? (/^(refused|retry)/.test(entry.text) ? 'bad' : 'good')}
          >
            <Time at={entry.at} />
            <span class="step">{entry.step}</span>
            <span class="what">{plainText(entry.text)}</span>
            <Ids ids={entry.ids} />
          </li>
        ))}
      </ol>
      {before ? (
        <ActionButton
          action={async () => {
            const page = await get<DocumentAnswer>('/api/document', { ...place, before });
            setOlder([...older, page.timeline]);
          }}
        >
          Show older attempts
        </ActionButton>
      ) : null}
    </>
  );
}

/** Ids are shown on demand only. */
function plainText(text: string): string {
  return text
    .replace(/, idempotency key \S+/, '')
    .replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(\/[0-9a-f-]{36})?\s?/gi, '');
}

/** Shows first what the last delivery has changed; of a document that is not delivered, what the next one would. */
function Versions({
  versions,
  now,
  place,
  isSettled,
}: {
  versions: DocumentAnswer['versions'];
  now: DocumentAnswer['now'];
  place: Place;
  isSettled: boolean;
}) {
  const held = versions.find(({ isDelivered }) => isDelivered)?.number ?? versions.at(-1)?.number;
  const earlier = isSettled ? versions.findLast(({ number }) => held !== undefined && number < held) : undefined;
  const [from, setFrom] = useState<number | undefined>(earlier?.number ?? held);
  const [to, setTo] = useState<number | 'now'>(earlier === undefined ? 'now' : (held ?? 'now'));
  const before = useAnswer<VersionAnswer>(from === undefined ? undefined : '/api/document/version', {
    ...place,
    version: from,
  });
  const after = useAnswer<VersionAnswer>(to === 'now' ? undefined : '/api/document/version', {
    ...place,
    version: to === 'now' ? undefined : to,
  });
  if (versions.length === 0) return <Empty>No version of it was sent yet.</Empty>;
  const later = to === 'now' ? now.document : after.answer?.document;
  const name = (number: number) => `version ${number}`;
  return (
    <>
      <Table
        label="Versions that were sent"
        rows={versions.toReversed()}
        keyOf={({ contentHash }) => contentHash}
        columns={[
          {
            name: 'Version',
            cell: ({ number, isDelivered }) => (
              <span>
                {number}
                {isDelivered ? <span class="under">the ERP has this one</span> : null}
              </span>
            ),
          },
          { name: 'Sent', kind: 'time', cell: ({ sent }) => <Time at={sent} /> },
          { name: 'Action', cell: ({ action }) => action ?? '' },
          { name: 'Outcome', cell: ({ outcome }) => outcome ?? '' },
          { name: 'In the ERP as', cell: ({ reference }) => reference ?? '' },
          {
            name: 'Total',
            kind: 'number',
            cell: ({ amount, currency }) => (amount ? moneyText(amount, currency) : ''),
          },
        ]}
      />
      <h2>Differences</h2>
      <div class="filters">
        <label class="field">
          <span>From</span>
          <select value={from} onChange={({ currentTarget }) => setFrom(Number(currentTarget.value))}>
            {versions.map(({ number }) => (
              <option key={number} value={number}>
                {name(number)}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          <span>to</span>
          <select
            value={to}
            onChange={({ currentTarget }) => setTo(currentTarget.value === 'now' ? 'now' : Number(currentTarget.value))}
          >
            <option value="now">as it is now</option>
            {versions.map(({ number }) => (
              <option key={number} value={number}>
                {name(number)}
              </option>
            ))}
          </select>
        </label>
      </div>
      <Failure error={before.error ?? after.error} />
      {before.answer?.document && later ? (
        <Differences before={before.answer.document} after={later} />
      ) : (
        <Empty>One of the two is not known: it cannot be made now, or was too long to be kept.</Empty>
      )}
    </>
  );
}

function Raw({ document, note }: { document: unknown; note: string | undefined }) {
  if (document === null) return <Empty>The document cannot be made now: {note}</Empty>;
  const text = JSON.stringify(document, null, 2);
  return (
    <div>
      <CopyButton text={text} what="the JSON" />
      <pre class="raw" tabindex={0}>
        {text}
      </pre>
    </div>
  );
}
