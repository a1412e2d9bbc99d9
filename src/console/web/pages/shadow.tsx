/** One shadow flow: what it would do, how that differs from the live flow, and how it becomes the live one. */
import type { ShadowAnswer } from '#console/api/shadows.ts';
import { Empty, Failure, Loading, Mark, PageHead, Time, type Tone } from '../parts/basics.tsx';
import { DifferenceLines } from '../parts/differences.tsx';
import { kindNames, titleOf } from '../parts/document-row.tsx';
import { ChoiceFilter } from '../parts/filter-bar.tsx';
import { flowPath } from '../parts/paths.ts';
import { useFilters } from '../parts/use-filters.ts';
import { useAnswer } from '../state/use-answer.ts';
import { ShadowMark } from './flows.tsx';

type Document = ShadowAnswer['documents'][number];

const actions: Readonly<Record<Document['action'], readonly [words: string, tone: Tone]>> = {
  create: ['would create', 'busy'],
  amend: ['would change', 'busy'],
  cancel: ['would cancel', 'busy'],
  none: ['nothing to do', 'good'],
  reject: ['would be refused', 'bad'],
  hold: ['leaves it as it is', 'still'],
  wait: ['waits for a record', 'still'],
};

const ofLive: Readonly<Record<Document['live'], string>> = {
  document: 'sends it',
  withdrawn: 'withdraws it',
  rejected: 'cannot make it',
  held: 'leaves it as it is',
  'not-yet': 'waits for a record',
  none: 'does not take documents of this kind',
};

export function ShadowPage({ flow: name }: { flow: string }) {
  const filters = useFilters();
  const { action, all } = filters.values;
  const { answer, error, busy } = useAnswer<ShadowAnswer>('/api/shadow', { flow: name, action, all });
  if (!answer)
    return (
      <>
        <PageHead title={name} />
        {error === undefined ? <Loading /> : <Failure error={error} />}
      </>
    );
  const { status, documents, matching } = answer;
  return (
    <>
      <PageHead title={status.flow}>
        <Mark tone="still">shadow</Mark>
        <ShadowMark shadow={status} />
      </PageHead>
      <Failure error={error} />
      <p class="lead">
        Nothing of this is written.{' '}
        {status.beside === null ? (
          'It runs beside no live flow.'
        ) : (
          <>
            It runs beside <a href={flowPath(status.beside)}>{status.beside}</a>: {status.differing} of{' '}
            {status.examined} documents differ from what that one sends.
          </>
        )}
      </p>
      {status.lastError === null ? null : <p class="failure">The ERP could not be asked: {status.lastError}</p>}
      <dl class="facts">
        {(Object.keys(actions) as Document['action'][])
          .filter((each) => status.counts[each] > 0)
          .map((each) => (
            <div key={each}>
              <dt>{actions[each][0]}</dt>
              <dd>{status.counts[each]}</dd>
            </div>
          ))}
        {status.unexamined > 0 ? (
          <div>
            <dt>not examined yet</dt>
            <dd>{status.unexamined}</dd>
          </div>
        ) : null}
      </dl>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <ChoiceFilter
          filters={filters}
          name="action"
          label="It would"
          choices={(Object.keys(actions) as Document['action'][]).map((each) => [each, actions[each][0]])}
        />
        <ChoiceFilter filters={filters} name="all" label="Also show" choices={[['true', 'those in step']]} />
      </form>
      {documents.length === 0 ? <Empty>No document differs, and nothing would be written.</Empty> : null}
      <div class="groups" aria-busy={busy}>
        {documents.map((document) => (
          <DocumentCard key={`${document.kind} ${document.key}`} document={document} beside={status.beside} />
        ))}
      </div>
      {documents.length < matching ? (
        <p class="quiet">
          {documents.length} of {matching} are shown; the others:{' '}
          <code>
            bridge plan {status.flow} --skip {documents.length}
          </code>
        </p>
      ) : null}
      <section>
        <h2>Make it the live flow</h2>
        <ol class="steps">
          <li>
            In the configuration, delete <code>shadow: true</code> from {status.flow}
            {status.beside === null ? '.' : `, and delete the flow ${status.beside}, or give it shadow: true.`}
          </li>
          <li>
            <code>bridge promote {status.flow}</code> shows what it would write, and asks.
          </li>
          <li>Restart the programs with that configuration.</li>
        </ol>
      </section>
    </>
  );
}

function DocumentCard({ document, beside }: { document: Document; beside: string | null }) {
  const { kind, key, supplierName, action, steps, differs, differences, live, examined } = document;
  const [words, tone] = actions[action];
  return (
    <section class="card group">
      <div class="difference-head">
        <h2>{titleOf(document)}</h2>
        <Mark tone={tone}>{words}</Mark>
      </div>
      <p class="under">
        {kindNames[kind] ?? kind}
        {kind === 'supplier' ? ` · ${key}` : supplierName === null ? '' : ` · ${supplierName}`} · examined{' '}
        <Time at={examined} ago />
      </p>
      {steps.length > 0 ? (
        <ul class="plain-list">
          {steps.map((step) => (
            <li key={step}>{step}</li>
          ))}
        </ul>
      ) : null}
      {differs && differences.length > 0 ? <DifferenceLines lines={differences} /> : null}
      {differs && differences.length === 0 && beside !== null ? (
        <p>
          {beside} {ofLive[live]}.
        </p>
      ) : null}
    </section>
  );
}
