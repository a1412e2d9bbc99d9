/** One comparison: what differs in which document, what to do about it, and its report. */
import { useState } from 'preact/hooks';
import type { ComparisonAnswer, ReportAnswer } from '#console/api/comparisons.ts';
import {
  ActionButton,
  Dialog,
  DialogEnd,
  Empty,
  Facts,
  Mark,
  PageHead,
  Reference,
  Time,
  Waiting,
} from '../parts/basics.tsx';
import { kindNames, titleOf } from '../parts/document-row.tsx';
import { documentPath, flowPath } from '../parts/paths.ts';
import { RowLink, Table } from '../parts/table.tsx';
import { get, postCall } from '../state/api.ts';
import { saveFile } from '../state/save-file.ts';
import { useAnswer } from '../state/use-answer.ts';
import { mayOperate, viewer } from '../state/viewer.ts';
import { RunMark, scopeOf } from './flows.tsx';

type Document = ComparisonAnswer['documents'][number];
type Finding = Document['findings'][number];

/** What each finding means, for a person who sees it for the first time. */
const meanings: Readonly<Record<Finding['finding'], string>> = {
  changed: 'changed in the ERP',
  missing: 'not in the ERP',
  cancelled: 'cancelled in the ERP',
  orphaned: 'withdrawn, and still in the ERP',
  unclear: 'could not be found out',
  'not compared': 'not compared',
};

export function ComparisonPage({ run: id }: { run: string }) {
  const { answer, error, reload } = useAnswer<ComparisonAnswer>('/api/comparisons/one', { run: id });
  if (!answer) return <Waiting title="Comparison" error={error} />;
  const { run, documents, hasMore } = answer;
  return (
    <>
      <PageHead title={`Comparison of ${run.flow}`}>
        <RunMark run={run} />
      </PageHead>
      <p class="lead">{summaryOf(answer)}</p>
      <Steering answer={answer} reload={reload} />
      <Facts
        facts={{
          Flow: <a href={flowPath(run.flow)}>{run.flow}</a>,
          Of: scopeOf(run),
          Begun: (
            <>
              <Time at={run.started} /> by {run.askedBy}
            </>
          ),
          Ended: <Time at={run.ended} />,
        }}
      />
      {documents.length === 0 && run.ended !== null ? (
        <Empty>The ERP holds every document as it was delivered.</Empty>
      ) : null}
      {documents.length === 0 ? null : <Findings documents={documents} />}
      {hasMore ? <p class="quiet">There are more: the report lists them, and so does bridge reconcile.</p> : null}
    </>
  );
}

function summaryOf({ run, counts }: ComparisonAnswer): string {
  const parts = Object.entries(counts)
    .filter(([name, count]) => count > 0 && name !== 'not compared')
    .map(([name, count]) => `${count} ${meanings[name as Finding['finding']]}`);
  const compared = `${run.documents} documents compared, ${run.asDelivered} as they were delivered`;
  const without = counts['not compared'] > 0 ? ` In ${counts['not compared']} the connector cannot compare all.` : '';
  return `${compared}${parts.length > 0 ? `: ${parts.join(', ')}` : ''}.${without}`;
}

function Steering({ answer: { run, repairable, counts }, reload }: { answer: ComparisonAnswer; reload: () => void }) {
  const [asks, setAsks] = useState(false);
  const [written, setWritten] = useState<number>();
  const download = async (ending: string, type: string, of: (report: ReportAnswer) => BlobPart) => {
    const report = await get<ReportAnswer>('/api/comparisons/report', { run: run.run });
    saveFile(`report-${run.run}.${ending}`, type, of(report));
  };
  const showsReport = run.ended !== null && viewer.value?.role !== 'viewer-without-prices';
  return (
    <div class="actions">
      {mayOperate() && repairable > 0 && run.ended !== null ? (
        <button type="button" class="primary" onClick={() => setAsks(true)}>
          Bring {repairable === 1 ? 'this document' : `these ${repairable} documents`} back into step
        </button>
      ) : null}
      {showsReport ? (
        <>
          <ActionButton action={() => download('html', 'text/html', ({ page }) => page)}>Report to print</ActionButton>
          <ActionButton action={() => download('json', 'application/json', ({ json }) => json)}>
            Report (JSON)
          </ActionButton>
          <ActionButton
            action={() => download('json.sig', 'application/octet-stream', ({ signature }) => bytesOf(signature))}
          >
            Its signature
          </ActionButton>
        </>
      ) : null}
      {written === undefined ? null : (
        <p role="status">
          {written === 1 ? '1 document is' : `${written} documents are`} due. The bridge asks the ERP once more before
          it writes. Compare again to see it.
        </p>
      )}
      {asks ? (
        <Dialog title={`Write ${repairable} documents again?`} close={() => setAsks(false)}>
          <p>
            They are written to the ERP of {run.flow} as the source has them now (
            {(['changed', 'missing', 'cancelled', 'orphaned'] as const)
              .filter((name) => counts[name] > 0)
              .map((name) => `${counts[name]} ${meanings[name]}`)
              .join(', ')}
            ). What people have changed there is lost.
          </p>
          <DialogEnd close={() => setAsks(false)}>
            <ActionButton
              kind="danger"
              action={async () => {
                const { replayed } = await postCall<{ replayed: number }>('/api/comparisons/repair', {
                  run: run.run,
                  count: repairable,
                });
                setAsks(false);
                setWritten(replayed);
                reload();
              }}
            >
              Write them
            </ActionButton>
          </DialogEnd>
        </Dialog>
      ) : null}
    </div>
  );
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

function Findings({ documents }: { documents: readonly Document[] }) {
  return (
    <Table
      label="What differs"
      rows={documents.flatMap((document) => document.findings.map((finding) => ({ document, finding })))}
      keyOf={({ document: { kind, key }, finding: { finding, field } }) => `${kind} ${key} ${finding} ${field}`}
      columns={[
        {
          name: 'Document',
          kind: 'wide',
          cell: ({ document }) => (
            <RowLink
              path={documentPath(document)}
              title={titleOf(document)}
              under={[kindNames[document.kind], document.kind === 'supplier' ? null : document.supplierName]
                .filter(Boolean)
                .join(' · ')}
            />
          ),
        },
        {
          name: 'In the ERP as',
          cell: ({ document: { reference, url } }) => <Reference reference={reference} url={url} />,
        },
        {
          name: 'What',
          kind: 'wide',
          cell: ({ document: { isDue }, finding }) => (
            <span>
              <Mark tone={finding.finding === 'unclear' ? 'still' : 'bad'}>{meanings[finding.finding]}</Mark>{' '}
              {isDue ? <Mark tone="busy">due again</Mark> : null}
              <span class="under">{[finding.reason, changeOf(finding)].filter(Boolean).join('; ')}</span>
            </span>
          ),
        },
        { name: 'Field', cell: ({ finding: { field } }) => (field === null ? '' : <code>{field}</code>) },
        { name: 'Delivered', kind: 'wide', cell: ({ finding }) => valueOf(finding, finding.deliveredValue) },
        {
          name: 'In the ERP',
          kind: 'wide',
          cell: ({ finding }) => <strong>{valueOf(finding, finding.erpValue)}</strong>,
        },
      ]}
    />
  );
}

/** A viewer without prices gets no values. */
function valueOf({ field }: Finding, value: string | null | undefined): string {
  if (field === null) return '';
  return value === undefined ? 'not shown' : (value ?? 'nothing');
}

function changeOf({ changedBy, changedAt }: Finding): string {
  if (changedBy === null && changedAt === null) return '';
  return `changed${changedBy === null ? '' : ` by ${changedBy}`}${changedAt === null ? '' : `, ${changedAt}`}`;
}
