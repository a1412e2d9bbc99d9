/** Asks why something is paused, before it is. */
import { useState } from 'preact/hooks';
import { ActionButton, Dialog, DialogEnd } from './basics.tsx';

export function PauseDialog({
  name,
  what,
  pause,
  close,
}: {
  name: string;
  /** What a pause means here. */
  what: string;
  pause: (reason: string) => Promise<void>;
  close: () => void;
}) {
  const [reason, setReason] = useState('');
  return (
    <Dialog title={`Pause ${name}?`} close={close}>
      <p class="quiet">{what}</p>
      <label class="field">
        <span>Why? Everybody sees it.</span>
        <input value={reason} onInput={({ currentTarget }) => setReason(currentTarget.value)} />
      </label>
      <DialogEnd close={close}>
        <ActionButton kind="primary" disabled={reason.trim() === ''} action={() => pause(reason)}>
          Pause
        </ActionButton>
      </DialogEnd>
    </Dialog>
  );
}
