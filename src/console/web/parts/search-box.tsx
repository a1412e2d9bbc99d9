/** The search that is on every page: `/` leads to it, arrows choose, Enter opens. */

import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso';
import type { SearchAnswer } from '#console/api/search-documents.ts';
import { get } from '../state/api.ts';
import { StateMark } from './basics.tsx';
import { kindNames, titleOf } from './document-row.tsx';
import { documentPath, documentsPath, eventPath, supplierPath } from './paths.ts';

/** The types of the JSX know a combobox with a datalist only. */
const combobox = { role: 'combobox' } as object;

const typedMs = 200;
const offeredMost = 8;

interface Offer {
  readonly path: string;
  readonly title: string;
  readonly under: string;
  readonly state?: string;
}

export function SearchBox() {
  const { route } = useLocation();
  const input = useRef<HTMLInputElement>(null);
  const list = useId().replaceAll(':', '');
  const [text, setText] = useState('');
  const [offers, setOffers] = useState<readonly Offer[]>();
  const [chosen, setChosen] = useState(-1);

  useEffect(() => {
    const focus = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement | null;
      const isTyping = target?.matches('input, textarea, select, [contenteditable]');
      if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
      event.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    document.addEventListener('keydown', focus);
    return () => document.removeEventListener('keydown', focus);
  }, []);

  useEffect(() => {
    const q = text.trim();
    setChosen(-1);
    if (q === '') {
      setOffers(undefined);
      return;
    }
    const stop = new AbortController();
    const timer = setTimeout(() => {
      get<SearchAnswer>('/api/search', { q, limit: offeredMost }, stop.signal).then(
        (answer) => setOffers(offersOf(answer)),
        () => undefined,
      );
    }, typedMs);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);

  const close = () => {
    setOffers(undefined);
    setChosen(-1);
  };
  const open = (path: string) => {
    close();
    setText('');
    input.current?.blur();
    route(path);
  };
  const count = offers?.length ?? 0;
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      const step = event.key === 'ArrowDown' ? 1 : -1;
      if (count > 0) setChosen((at) => (at + step + count + (at < 0 && step < 0 ? 1 : 0)) % count);
    } else if (event.key === 'Escape') {
      close();
      input.current?.blur();
    } else if (event.key === 'Enter') {
      event.preventDefault();
      const offer = offers?.[chosen];
      if (offer) open(offer.path);
      else if (text.trim() !== '') open(documentsPath({ q: text.trim() }));
    }
  };
  return (
    <search class="search">
      <input
        ref={input}
        type="search"
        {...combobox}
        aria-label="Search events, suppliers, documents and ERP numbers"
        aria-expanded={offers !== undefined}
        aria-controls={list}
        aria-autocomplete="list"
        aria-activedescendant={chosen >= 0 ? `${list}-${chosen}` : undefined}
        placeholder="Search: event, supplier, ERP number   /"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={onKeyDown}
        onBlur={() => setTimeout(close, 150)}
      />
      <div class="offers card" hidden={offers === undefined}>
        <ul id={list} role="listbox" aria-label="What was found">
          {(offers ?? []).map((offer, index) => (
            <li
              key={offer.path}
              id={`${list}-${index}`}
              role="option"
              aria-selected={index === chosen}
              onMouseDown={(event) => event.preventDefault()}
              onClick={() => open(offer.path)}
            >
              <span class="offer-title">{offer.title}</span>
              {offer.state ? <StateMark state={offer.state} /> : null}
              <span class="under">{offer.under}</span>
            </li>
          ))}
        </ul>
        <p class="quiet">{count === 0 ? 'Nothing fits.' : 'Enter lists the documents that fit.'}</p>
      </div>
    </search>
  );
}

function offersOf({ subjects, documents }: SearchAnswer): Offer[] {
  return [
    ...subjects.slice(0, offeredMost / 2).map(({ kind, id, name, reference, source }) => ({
      path: kind === 'event' ? eventPath(source, id) : supplierPath(id),
      title: name || reference,
      under: `${kind === 'event' ? 'Event' : 'Supplier'}${reference ? ` · ${reference}` : ''}`,
    })),
    ...documents.map((document) => ({
      path: documentPath(document),
      title: titleOf(document),
      under: [kindNames[document.kind], document.kind === 'supplier' ? null : document.supplierName, document.reference]
        .filter(Boolean)
        .join(' · '),
      state: document.state,
    })),
  ];
}
