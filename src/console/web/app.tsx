/** The frame around every page: navigation, search, whether all is live, and who looks. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { ErrorBoundary, LocationProvider, Route, Router, useLocation } from 'preact-iso';
import { AccountPage } from './pages/account.tsx';
import { ActionsPage } from './pages/actions.tsx';
import { ComparisonPage } from './pages/comparison.tsx';
import { DocumentPage } from './pages/document.tsx';
import { DocumentsPage } from './pages/documents.tsx';
import { EventPage } from './pages/event.tsx';
import { EventsPage } from './pages/events.tsx';
import { FlowPage } from './pages/flow.tsx';
import { FlowsPage } from './pages/flows.tsx';
import { IntakePage } from './pages/intake.tsx';
import { OverviewPage } from './pages/overview.tsx';
import { RefusedPage } from './pages/refused.tsx';
import { SourcesPage } from './pages/sources.tsx';
import { SystemPage } from './pages/system.tsx';
import { PageHead } from './parts/basics.tsx';
import { SearchBox } from './parts/search-box.tsx';
import { logOut, sessionEnded } from './state/api.ts';
import { paused, startLive } from './state/live.ts';
import { loadViewer, viewer } from './state/viewer.ts';

const groups: readonly (readonly [title: string, pages: readonly (readonly [path: string, name: string])[]])[] = [
  [
    'Look',
    [
      ['/', 'Overview'],
      ['/events', 'Events and awards'],
      ['/documents', 'Documents'],
      ['/refused', 'Refused documents'],
    ],
  ],
  [
    'Steer',
    [
      ['/flows', 'Flows'],
      ['/sources', 'Sources'],
    ],
  ],
  [
    'This bridge',
    [
      ['/system', 'Doctor and settings'],
      ['/actions', 'Audit log'],
    ],
  ],
];

export function App() {
  useEffect(() => {
    startLive();
    void loadViewer();
  }, []);
  return (
    <LocationProvider>
      <a class="skip" href="#page">
        Skip to the page
      </a>
      <Header />
      <div class="frame">
        <Navigation />
        <main id="page" tabindex={-1}>
          <SessionEnded />
          <ErrorBoundary>
            <Router>
              <Route path="/" component={OverviewPage} />
              <Route path="/events" component={EventsPage} />
              <Route path="/events/:source/:id" component={EventPage} />
              <Route path="/documents" component={DocumentsPage} />
              <Route path="/documents/:flow/:kind/:key" component={DocumentPage} />
              <Route path="/refused" component={RefusedPage} />
              <Route path="/flows" component={FlowsPage} />
              <Route path="/flows/:flow" component={FlowPage} />
              <Route path="/intakes/:intake" component={IntakePage} />
              <Route path="/comparisons/:run" component={ComparisonPage} />
              <Route path="/sources" component={SourcesPage} />
              <Route path="/system" component={SystemPage} />
              <Route path="/actions" component={ActionsPage} />
              <Route path="/account" component={AccountPage} />
              <Route default component={NotFound} />
            </Router>
          </ErrorBoundary>
        </main>
      </div>
    </LocationProvider>
  );
}

function Header() {
  const [open, setOpen] = useState(false);
  const { url } = useLocation();
  useEffect(() => setOpen(false), [url]);
  useEffect(() => {
    document.documentElement.classList.toggle('menu-open', open);
  }, [open]);
  return (
    <header class="top">
      <button
        type="button"
        class="menu-button"
        aria-expanded={open}
        aria-controls="menu"
        onClick={() => setOpen(!open)}
      >
        <span class="visually-hidden">Menu</span>
        <span aria-hidden="true">☰</span>
      </button>
      <a class="brand" href="/">
        <img src="/favicon.svg" alt="" width="22" height="22" />
        sourcing-bridge
      </a>
      <SearchBox />
      <div class="top-controls">
        <button
          type="button"
          class={paused.value ? 'live paused' : 'live'}
          aria-pressed={paused.value}
          title={paused.value ? 'The page stands still' : 'The page follows what happens'}
          onClick={() => {
            paused.value = !paused.value;
          }}
        >
          {paused.value ? 'Paused' : 'Live'}
        </button>
        <span class="own">
          <Own />
        </span>
      </div>
    </header>
  );
}

/** What is the reader's own: on a phone it stands in the menu. */
function Own() {
  if (!viewer.value) return null;
  return (
    <>
      <a class="who" href="/account" title={`Your account. Role: ${viewer.value.role}`}>
        {viewer.value.name}
      </a>
      <button type="button" class="plain" onClick={() => void logOut()}>
        Log out
      </button>
    </>
  );
}

function Navigation() {
  const { path } = useLocation();
  const isHere = (to: string) => (to === '/' ? path === '/' : path === to || path.startsWith(`${to}/`));
  return (
    <nav id="menu" aria-label="Pages">
      {groups.map(([title, pages]) => (
        <section key={title}>
          <h2>{title}</h2>
          <ul>
            {pages.map(([to, name]) => (
              <li key={to}>
                <a href={to} aria-current={isHere(to) ? 'page' : undefined}>
                  {name}
                </a>
              </li>
            ))}
          </ul>
        </section>
      ))}
      <div class="own">
        <Own />
      </div>
    </nav>
  );
}

/** What was shown stays, until the person has logged in again. */
function SessionEnded() {
  const link = useRef<HTMLAnchorElement>(null);
  const { url } = useLocation();
  useEffect(() => {
    if (sessionEnded.value) link.current?.focus();
  }, [sessionEnded.value]);
  if (!sessionEnded.value) return null;
  return (
    <p class="failure" role="alert">
      Your session has ended. {/* Not a page of the application: another target keeps its router away. */}
      <a ref={link} href={`/login?next=${encodeURIComponent(url)}`} target="_top">
        Log in again
      </a>
    </p>
  );
}

function NotFound() {
  return (
    <>
      <PageHead title="There is no such page" />
      <p class="lead">
        The address may be misspelt, or the page is gone: <a href="/">to the overview</a>, or search above.
      </p>
    </>
  );
}
