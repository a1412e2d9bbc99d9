/** What is the reader's own: the password and the sessions. */
import { useState } from 'preact/hooks';
import type { AccountAnswer } from '#console/api/account.ts';
import { ActionButton, Failure, Loading, Mark, PageHead, Time } from '../parts/basics.tsx';
import { Table } from '../parts/table.tsx';
import { logOut, postCall } from '../state/api.ts';
import { useAnswer } from '../state/use-answer.ts';

const methodNames = { password: 'password', link: 'link', openid: 'single sign-on' } as const;

export function AccountPage() {
  const { answer, error, reload } = useAnswer<AccountAnswer>('/api/account', {}, { live: false });
  const end = async (body: { id?: string }) => {
    await postCall('/api/account/end-sessions', body);
    reload();
  };
  return (
    <>
      <PageHead title="Account" />
      <Failure error={error} />
      {answer === undefined && error === undefined ? <Loading /> : null}
      {answer?.hasPassword === true ? <PasswordForm /> : null}
      {answer ? (
        <section>
          <h2>Where you are logged in</h2>
          <Table
            label="Sessions"
            rows={answer.sessions}
            keyOf={({ id }) => id}
            columns={[
              { name: 'By', cell: ({ method }) => methodNames[method] },
              { name: 'Since', kind: 'time', cell: ({ created }) => <Time at={created} /> },
              { name: 'Used', kind: 'time', cell: ({ lastUsed }) => <Time at={lastUsed} /> },
              { name: 'Ends', kind: 'time', cell: ({ ends }) => <Time at={ends} /> },
              {
                name: 'State',
                cell: ({ id, isThis }) =>
                  isThis ? (
                    <Mark tone="good">this browser</Mark>
                  ) : (
                    <ActionButton action={() => end({ id })}>End</ActionButton>
                  ),
              },
            ]}
          />
          {answer.sessions.length > 1 ? (
            <ActionButton kind="danger" action={() => end({})}>
              End all others
            </ActionButton>
          ) : null}
        </section>
      ) : null}
    </>
  );
}

function PasswordForm() {
  const [current, setCurrent] = useState('');
  const [next, setNext] = useState('');
  const change = async () => {
    await postCall('/api/account/password', { current, next });
    await logOut();
  };
  const field = (id: string, label: string, value: string, set: (text: string) => void, autocomplete: string) => (
    <label for={id}>
      {label}
      <input
        id={id}
        type="password"
        autocomplete={autocomplete}
        value={value}
        onInput={({ currentTarget }) => set(currentTarget.value)}
      />
    </label>
  );
  return (
    <section>
      <h2>Password</h2>
      <p class="quiet">12 characters or more. All your sessions end, and you log in with the new one.</p>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        {field('current', 'Current password', current, setCurrent, 'current-password')}
        {field('next', 'New password', next, setNext, 'new-password')}
        <ActionButton kind="primary" action={change} disabled={current === '' || next.length < 12}>
          Change it
        </ActionButton>
      </form>
    </section>
  );
}
