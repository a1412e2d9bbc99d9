/** What an operator does with a flow or an intake: pause it, resume it, agree to what it waits for, see what it would do. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { ActionButton, Dialog, DialogEnd, Field } from './basics.tsx';

/** What a pause waits for: an operator sees it before they agree. */
interface Agreement {
  readonly button: string;
  readonly title: string;
  readonly ask: string;
  readonly show: () => Promise<ComponentChildren>;
}

interface SteeringProps {
  readonly name: string;
  readonly pausedReason: string | null;
  readonly pauseMeans: string;
  readonly agreement: Agreement | undefined;
  /** How it is resumed where nothing has to be seen before. */
  readonly resumeBy?: { readonly button: string; readonly kind?: 'danger'; readonly agree?: true };
  /** The button of `plan`, which asks what would be done now. */
  readonly question: string;
  readonly plan: () => Promise<ComponentChildren>;
  readonly pause: (reason: string) => Promise<unknown>;
  readonly resume: (agree: boolean) => Promise<unknown>;
  readonly reload: () => void;
  readonly children?: ComponentChildren;
}

export function Steering(props: SteeringProps) {
  const { pausedReason, agreement, resumeBy = { button: 'Resume' }, question, resume, reload } = props;
  const [asks, setAsks] = useState(false);
  const [plan, setPlan] = useState<ComponentChildren>();
  const close = () => setAsks(false);
  const finish = async (done: Promise<unknown>) => {
    await done;
    close();
    reload();
  };
  return (
    <div class="actions">
      {pausedReason === null || agreement ? (
        <button type="button" class={agreement ? 'primary' : 'secondary'} onClick={() => setAsks(true)}>
          {agreement ? agreement.button : 'Pause'}
        </button>
      ) : (
        <ActionButton kind={resumeBy.kind ?? 'primary'} action={() => finish(resume(resumeBy.agree === true))}>
          {resumeBy.button}
        </ActionButton>
      )}
      <ActionButton action={async () => setPlan(await props.plan())}>{question}</ActionButton>
      {props.children}
      {plan}
      {asks && agreement ? (
        <AgreeDialog {...agreement} reason={pausedReason} close={close} resume={(agree) => finish(resume(agree))} />
      ) : null}
      {asks && !agreement ? (
        <PauseDialog {...props} close={close} pause={(reason) => finish(props.pause(reason))} />
      ) : null}
    </div>
  );
}

function PauseDialog({
  name,
  pauseMeans,
  pause,
  close,
}: Pick<SteeringProps, 'name' | 'pauseMeans' | 'pause'> & { close: () => void }) {
  const [reason, setReason] = useState('');
  return (
    <Dialog title={`Pause ${name}?`} close={close}>
      <p class="quiet">{pauseMeans}</p>
      <Field label="Why? Everybody sees it." value={reason} set={setReason} />
      <DialogEnd close={close}>
        <ActionButton kind="primary" disabled={reason.trim() === ''} action={() => pause(reason)}>
          Pause
        </ActionButton>
      </DialogEnd>
    </Dialog>
  );
}

function AgreeDialog({
  title,
  reason,
  ask,
  show,
  close,
  resume,
}: Agreement & { reason: string | null; close: () => void; resume: SteeringProps['resume'] }) {
  const [shown, setShown] = useState<ComponentChildren>();
  return (
    <Dialog title={title} close={close}>
      <p>{reason}</p>
      {shown ?? <ActionButton action={async () => setShown(await show())}>{ask}</ActionButton>}
      <DialogEnd close={close}>
        <ActionButton action={() => resume(false)}>Resume without agreeing</ActionButton>
        <ActionButton kind="danger" disabled={shown === undefined} action={() => resume(true)}>
          Agree and resume
        </ActionButton>
      </DialogEnd>
    </Dialog>
  );
}
