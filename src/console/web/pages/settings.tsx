/** The settings as this process has them; secrets are hidden by the server. */
import type { SettingsAnswer } from '#console/api/read-settings.ts';
import { Failure, Loading, PageHead } from '../parts/basics.tsx';
import { useAnswer } from '../state/use-answer.ts';

export function SettingsPage() {
  const { answer, error } = useAnswer<SettingsAnswer>('/api/settings', {}, { live: false });
  return (
    <>
      <PageHead title="Settings" />
      <p class="quiet lead">
        As this process has read them; the configuration file is where they are changed. Secrets are hidden.
      </p>
      <Failure error={error} />
      {answer === undefined && error === undefined ? <Loading /> : null}
      {answer ? <Tree value={{ role: answer.role, ...(answer.settings as object) }} /> : null}
    </>
  );
}

function Tree({ value }: { value: unknown }) {
  if (typeof value !== 'object' || value === null) return <code>{String(value)}</code>;
  const members = Object.entries(value).filter(([, member]) => member !== undefined && member !== null);
  if (members.length === 0) return <span class="quiet">none</span>;
  if (members.every(([, member]) => typeof member !== 'object') && Array.isArray(value))
    return <code>{value.join(', ')}</code>;
  return (
    <dl class="tree">
      {members.map(([name, member]) => (
        <div key={name}>
          <dt>{Array.isArray(value) ? ((member as { name?: string }).name ?? name) : name}</dt>
          <dd>
            <Tree value={member} />
          </dd>
        </div>
      ))}
    </dl>
  );
}
