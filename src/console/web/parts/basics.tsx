/** The small parts that every page is made of. */
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { agoText, timeText } from '../state/times.ts';
import { sentenceOf, shortReference, stateWords, terms } from './words.ts';

const nowMs = signal(Date.now());
setInterval(() => {
  nowMs.value = Date.now();
}, 10_000);

/** A time in the reader's zone; the pointer over it shows UTC to the microsecond, and how long ago that was. */
export function Time({ at, ago = false }: { at: string | null | undefined; ago?: boolean }) {
  if (!at) return <span class="quiet">–</span>;
  const full = `${at} (UTC), ${agoText(at, nowMs.value)}`;
  return (
    <time dateTime={at} title={full}>
      {ago ? agoText(at, nowMs.value) : timeText(at)}
    </time>
  );
}

export type Tone = 'good' | 'busy' | 'bad' | 'still';

/** A state in words, with a mark that needs no colour. */
export function Mark({
  tone,
  title,
  children,
}: {
  tone: Tone;
  title?: string | undefined;
  children: ComponentChildren;
}) {
  return (
    <span class={`mark ${tone}`} title={title}>
      {children}
    </span>
  );
}

/** A word of this console; the field's own one, and what it means, shows where the pointer rests. */
export function Term({ word, children = word }: { word: string; children?: ComponentChildren }) {
  return (
    <abbr class="term" title={terms[word]}>
      {children}
    </abbr>
  );
}

const tones: Record<string, Tone> = {
  delivered: 'good',
  waiting: 'busy',
  'under way': 'busy',
  'dead letter': 'bad',
  held: 'still',
  cancelled: 'still',
  nothing: 'still',
};

export function StateMark({ state }: { state: string }) {
  const word = stateWords[state] ?? state;
  return (
    <Mark tone={tones[state] ?? 'still'} title={terms[word]}>
      {word}
    </Mark>
  );
}

/** What an ERP said: as one sentence with what to do; its own words are behind a fold where they say more. */
export function Said({
  words,
  todo,
  tone = 'failure',
}: {
  words: string;
  todo?: string;
  tone?: 'failure' | 'note' | 'plain';
}) {
  const sentence = sentenceOf(words);
  return (
    <div class={tone}>
      <p>{sentence}</p>
      {todo === undefined ? null : <p class="todo">→ {todo}</p>}
      {sentence === words || sentence === `${words}.` ? null : (
        <details>
          <summary>Word for word</summary>
          <p class="words">{words}</p>
        </details>
      )}
    </div>
  );
}

export function Failure({ error }: { error: string | undefined }) {
  if (error === undefined) return null;
  return (
    <p class="failure" role="alert">
      {error}
    </p>
  );
}

export function Loading({ what = 'Loading' }: { what?: string }) {
  return <p class="quiet loading">{what} …</p>;
}

/** A page that has nothing to show yet, or cannot show it. */
export function Waiting({ title, error }: { title: string; error: string | undefined }) {
  return (
    <>
      <PageHead title={title} />
      {error === undefined ? <Loading /> : <Failure error={error} />}
    </>
  );
}

/** Names and values; what is not known is left out. */
export function Facts({ facts }: { facts: Readonly<Record<string, ComponentChildren>> }) {
  const known = Object.entries(facts).filter(([, value]) => value !== undefined && value !== null && value !== '');
  if (known.length === 0) return null;
  return (
    <dl class="facts">
      {known.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

export function CopyButton({ text, what }: { text: string; what: string }) {
  const [copied, setCopied] = useState(false);
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1_500);
    });
  };
  return (
    <button type="button" class="copy" onClick={copy} aria-label={`Copy ${what}`} title={`Copy ${what}`}>
      <svg
        viewBox="0 0 16 16"
        width="13"
        height="13"
        fill="none"
        stroke="currentColor"
        stroke-width="1.5"
        aria-hidden="true"
      >
        <path d={copied ? 'M2 8.5l4 4 8-9' : 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3'} />
      </svg>
    </button>
  );
}

/** Ids, which are shown on demand only. */
export function Ids({ ids }: { ids: Readonly<Record<string, string | null | undefined>> }) {
  const id = useId().replaceAll(':', '');
  const known = Object.entries(ids).filter((entry): entry is [string, string] => Boolean(entry[1]));
  if (known.length === 0) return null;
  return (
    <span class="ids">
      <button type="button" class="plain" popovertarget={id}>
        ids
      </button>
      <div id={id} popover="auto" class="card ids-list">
        <dl>
          {known.map(([name, value]) => (
            <div key={name}>
              <dt>{wordsOf(name)}</dt>
              <dd>
                <code>{value}</code> <CopyButton text={value} what={name} />
              </dd>
            </div>
          ))}
        </dl>
      </div>
    </span>
  );
}

/** `idempotencyKey` as `idempotency key`. */
function wordsOf(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

/** A number of the ERP, short, with a button that copies all of it; a link into the ERP where the connector knows one. */
export function Reference({ reference, url }: { reference: string | null; url: string | null }) {
  if (reference === null || reference === '') return <span class="quiet">–</span>;
  const short = shortReference(reference);
  return (
    <span class="reference">
      {url === null ? (
        <span title={reference}>{short}</span>
      ) : (
        <a href={url} target="_blank" rel="noreferrer" title={`${reference}: open it in the ERP`}>
          {short}
          <span aria-hidden="true"> ↗</span>
        </a>
      )}
      <CopyButton text={reference} what={reference} />
    </span>
  );
}

/** A dialog over the page. Escape and Cancel close it. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId().replaceAll(':', '');
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={close}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

/** The buttons at the end of a dialog, after one that closes it. */
export function DialogEnd({ close, children }: { close: () => void; children?: ComponentChildren }) {
  return (
    <div class="actions end">
      <button type="button" class="plain" onClick={close}>
        {children === undefined ? 'Close' : 'Cancel'}
      </button>
      {children}
    </div>
  );
}

/** A field with its label; `input` has what HTML calls it: `type`, `autocomplete`, `maxlength`. */
export function Field({
  label,
  value,
  set,
  ...input
}: {
  label: string;
  value: string;
  set: (text: string) => void;
  type?: string;
  autocomplete?: string;
  maxlength?: number;
}) {
  return (
    <label class="field">
      <span>{label}</span>
      <input {...(input as object)} value={value} onInput={({ currentTarget }) => set(currentTarget.value)} />
    </label>
  );
}

/** A button whose work may take a while, and may fail: it says so beside itself. */
export function ActionButton({
  action,
  children,
  kind = 'secondary',
  disabled = false,
}: {
  action: () => Promise<unknown>;
  children: ComponentChildren;
  kind?: 'primary' | 'secondary' | 'danger' | 'plain';
  disabled?: boolean;
}) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string>();
  const run = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await action();
    } catch (caught) {
      setError(caught instanceof Error ? caught.message : String(caught));
    } finally {
      setBusy(false);
    }
  };
  return (
    <span class="action">
      <button type="button" class={kind} disabled={busy || disabled} aria-busy={busy} onClick={() => void run()}>
        {children}
      </button>
      {error === undefined ? null : (
        <span class="failure" role="alert">
          {error}
        </span>
      )}
    </span>
  );
}

/** The title of a page, which the browser's tab shows too. The tests and screen readers find the page by it. */
export function PageHead({ title, children }: { title: string; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} – sourcing-bridge`;
  }, [title]);
  return (
    <div class="page-head">
      <h1>{title}</h1>
      {children}
    </div>
  );
}

export function Tabs<Name extends string>({
  names,
  chosen,
  choose,
  label,
}: {
  names: readonly Name[];
  chosen: Name;
  choose: (name: Name) => void;
  label: string;
}) {
  return (
    <div class="tabs" role="group" aria-label={label}>
      {names.map((name) => (
        <button type="button" key={name} aria-pressed={name === chosen} onClick={() => choose(name)}>
          {name}
        </button>
      ))}
    </div>
  );
}
