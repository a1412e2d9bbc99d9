/** What is the reader's own: the password, the second factor and the sessions. */
import { useState } from 'preact/hooks';
import { encode } from 'uqr';
import type { NewFactor } from '#console/access/second-factor.ts';
import type { AccountAnswer } from '#console/api/account.ts';
import { ActionButton, CopyButton, Failure, Field, Loading, Mark, PageHead, Time } from '../parts/basics.tsx';
import { Filters } from '../parts/filter-bar.tsx';
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
      {answer?.hasPassword === true ? (
        <>
          <PasswordForm />
          <SecondFactor hasFactor={answer.hasFactor} />
        </>
      ) : null}
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

function CurrentPassword(field: { value: string; set: (text: string) => void }) {
  return <Field label="Current password" type="password" autocomplete="current-password" {...field} />;
}

function PasswordForm() {
  const [current, setCurrent] = useState('');
  const [next, setNext] = useState('');
  const change = async () => {
    await postCall('/api/account/password', { current, next });
    await logOut();
  };
  return (
    <section>
      <h2>Password</h2>
      <p class="quiet">12 characters or more. All your sessions end, and you log in with the new one.</p>
      <Filters>
        <CurrentPassword value={current} set={setCurrent} />
        <Field label="New password" type="password" value={next} set={setNext} autocomplete="new-password" />
        <ActionButton kind="primary" action={change} disabled={current === '' || next.length < 12}>
          Change it
        </ActionButton>
      </Filters>
    </section>
  );
}

/** Codes of an authenticator app beside the password. */
function SecondFactor({ hasFactor }: { hasFactor: boolean }) {
  const [made, setMade] = useState<NewFactor>();
  const [current, setCurrent] = useState('');
  const [code, setCode] = useState('');
  const send = async (path: string, more: object) => {
    await postCall(`/api/account/${path}`, { current, code, ...more });
    await logOut();
  };
  return (
    <section>
      <h2>Second factor</h2>
      <p class="quiet">
        {hasFactor
          ? 'Each login asks for a code of your authenticator app. If you lose it, an operator of the machine can remove it.'
          : 'An authenticator app on your phone shows a new code every 30 seconds; each login then asks for one.'}
      </p>
      {!hasFactor && made === undefined ? (
        <ActionButton action={async () => setMade(await postCall<NewFactor>('/api/account/new-factor'))}>
          Set up an app
        </ActionButton>
      ) : (
        <>
          {made ? <Enrolment made={made} /> : null}
          <Filters>
            <CurrentPassword value={current} set={setCurrent} />
            <Field label="Code of the app" value={code} set={setCode} autocomplete="one-time-code" />
            {made ? (
              <ActionButton kind="primary" action={() => send('set-factor', { secret: made.secret })}>
                Ask for codes from now on
              </ActionButton>
            ) : (
              <ActionButton kind="danger" action={() => send('remove-factor', {})}>
                Remove it
              </ActionButton>
            )}
          </Filters>
          <p class="quiet">All your sessions end, and you log in again, with the next code.</p>
        </>
      )}
    </section>
  );
}

/** The secret as a code that a camera reads, and as text. */
function Enrolment({ made: { secret, uri } }: { made: NewFactor }) {
  const { data, size } = encode(uri, { border: 2 });
  const dark = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`M${x} ${y}h1v1h-1z`] : []))).join('');
  return (
    <div class="enrolment">
      <svg viewBox={`0 0 ${size} ${size}`} role="img" aria-label="QR code of the secret" shape-rendering="crispEdges">
        <rect width={size} height={size} fill="#fff" />
        <path d={dark} fill="#000" />
      </svg>
      <p>
        Scan this code with the app, or type the secret into it:
        <br />
        <code>{secret}</code> <CopyButton text={secret} what="the secret" />
      </p>
    </div>
  );
}
