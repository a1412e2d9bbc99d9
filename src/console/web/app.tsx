/** The frame around every page: navigation, search, whether all is live, and who looks. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { ErrorBoundary, LocationProvider, Route, Router, useLocation } from 'preact-iso';
import { AccountPage } from './pages/account.tsx';
import { ActionsPage } from './pages/actions.tsx';
import { ComparisonPage } from './pages/comparison.tsx';
import { ComparisonsPage } from './pages/comparisons.tsx';
import { DeadLettersPage } from './pages/dead-letters.tsx';
import { DoctorPage } from './pages/doctor.tsx';
import { DocumentPage } from './pages/document.tsx';
import { DocumentsPage } from './pages/documents.tsx';
import { EventPage } from './pages/event.tsx';
import { EventsPage } from './pages/events.tsx';
import { FeedsPage } from './pages/feeds.tsx';
import { FlowPage } from './pages/flow.tsx';
import { FlowsPage } from './pages/flows.tsx';
import { IntakePage } from './pages/intake.tsx';
import { IntakesPage } from './pages/intakes.tsx';
import { OverviewPage } from './pages/overview.tsx';
import { SearchPage } from './pages/search.tsx';
import { SettingsPage } from './pages/settings.tsx';
import { SupplierPage } from './pages/supplier.tsx';
import { SuppliersPage } from './pages/suppliers.tsx';
import { WebhooksPage } from './pages/webhooks.tsx';
import { PageHead } from './parts/basics.tsx';
import { SearchBox } from './parts/search-box.tsx';
import { logOut, sessionEnded } from './state/api.ts';
import { liveState, paused, startLive } from './state/live.ts';
import { zone } from './state/times.ts';
import { loadViewer, viewer } from './state/viewer.ts';

const groups: readonly (readonly [title: string, pages: readonly (readonly [path: string, name: string])[]])[] = [
  [
    'Look',
    [
      ['/', 'Overview'],
      ['/documents', 'Documents'],
      ['/events', 'Events'],
      ['/suppliers', 'Suppliers'],
      ['/dead-letters', 'Dead letters'],
      ['/comparisons', 'Comparisons'],
    ],
  ],
  [
    'Steer',
    [
      ['/flows', 'Flows'],
      ['/intakes', 'Intakes'],
      ['/feeds', 'Feeds'],
      ['/webhooks', 'Webhooks'],
    ],
  ],
  [
    'This bridge',
    [
      ['/doctor', 'Doctor'],
      ['/settings', 'Settings'],
      ['/actions', 'Actions'],
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
              <Route path="/search" component={SearchPage} />
              <Route path="/documents" component={DocumentsPage} />
              <Route path="/documents/:flow/:kind/:key" component={DocumentPage} />
              <Route path="/events" component={EventsPage} />
              <Route path="/events/:source/:id" component={EventPage} />
              <Route path="/suppliers" component={SuppliersPage} />
              <Route path="/suppliers/:source/:id" component={SupplierPage} />
              <Route path="/dead-letters" component={DeadLettersPage} />
              <Route path="/comparisons" component={ComparisonsPage} />
              <Route path="/comparisons/:run" component={ComparisonPage} />
              <Route path="/flows" component={FlowsPage} />
              <Route path="/flows/:flow" component={FlowPage} />
              <Route path="/intakes" component={IntakesPage} />
              <Route path="/intakes/:intake" component={IntakePage} />
              <Route path="/feeds" component={FeedsPage} />
              <Route path="/webhooks" component={WebhooksPage} />
              <Route path="/doctor" component={DoctorPage} />
              <Route path="/actions" component={ActionsPage} />
              <Route path="/settings" component={SettingsPage} />
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
          class={`live ${liveState.value}`}
          aria-pressed={paused.value}
          title={paused.value ? 'The page stands still' : 'The page follows what happens'}
          onClick={() => {
            paused.value = !paused.value;
          }}
        >
          {liveState.value === 'live' ? 'Live' : liveState.value === 'paused' ? 'Paused' : 'Asking'}
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
  return (
    <>
      <button
        type="button"
        class="plain zone"
        title="Show times in the zone of this browser, or in UTC"
        aria-pressed={zone.value === 'utc'}
        onClick={() => {
          zone.value = zone.value === 'utc' ? 'local' : 'utc';
        }}
      >
        {zone.value === 'utc' ? 'UTC' : 'Local time'}
      </button>
      {viewer.value ? (
        <>
          <a class="who" href="/account" title={`Your account. Role: ${viewer.value.role}`}>
            {viewer.value.name}
          </a>
          <button type="button" class="plain" onClick={() => void logOut()}>
            Log out
          </button>
        </>
      ) : null}
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
            {pages.filter(isOffered).map(([to, name]) => (
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

/** Without an intake there is no page of intakes. */
function isOffered([path]: readonly [path: string, name: string]): boolean {
  return path !== '/intakes' || viewer.value?.offers.intakes === true;
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
      <p>
        <a href="/">To the overview</a>
      </p>
    </>
  );
}
