/**
 * The words of `docs/glossary.md` are the only ones: what was once called otherwise does not come back, and no exported
 * name stands for two things. Ordinary words ("cut", "edge", "told") are not on the list, only names and phrases.
 */
import { execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');
const self = 'test/check/vocabulary.test.ts';

/** Identifiers, columns, tables and metrics that had another name before, and the term that took their place. */
const oldNames: Readonly<Record<string, string>> = {
  walkWindows: 'scanWindows',
  walkFeed: 'scanFeed',
  careful: 'window scan',
  settleFeed: 'advanceWatermark',
  markSettled: 'markScanned',
  doubts: 'suspect_versions',
  doubted: 'suspect',
  doubt: 'suspect, or uncertain',
  doubtful_since: 'uncertain_since',
  doubtfulSince: 'uncertainSince',
  cutOf: 'upperBound',
  FeedHabits: 'SourceProfile',
  learnHabits: 'probeSource',
  habits: 'source profile; quirks of a test source',
  sitOutQuota: 'waitForRateLimit',
  createNewsPace: 'createNotificationThrottle',
  newsPaceMs: 'throttleMs',
  news_from: 'throttled_until',
  ripen: 'noteFirstSeen',
  ripe: 'first_seen_bound',
  ripening: 'newest_noted',
  ripening_at: 'newest_noted_at',
  LeadsNowhere: 'PaginationLoop',
  createPresence: 'startLiveness',
  presence: 'heartbeat',
  ProcessMark: 'ProcessIdentity',
  processMark: 'processIdentity',
  TimeKeeper: 'DueTimer',
  createTimeKeeper: 'createDueTimer',
  createRareLog: 'createThrottledLog',
  createTroubleLog: 'createOutageLog',
  noteMentions: 'indexReferences',
  mentionsTable: 'referencesTable',
  noteSettings: 'resumeOnSettingsChange',
  settings_mark: 'settings_mac',
  shapeOf: 'fingerprintOf',
  fittingKeys: 'limitKeys',
  createTold: 'createLeakDetector',
  Told: 'LeakDetector',
  startHttpEdge: 'startHttpFaultProxy',
  startTcpEdge: 'startTcpFaultProxy',
  needEdge: 'needProxy',
  Happening: 'DomainEvent',
  happening: 'domain event',
  happenings: 'domain events',
  lateFinds: 'lateArrivals',
  late_finds: 'late_arrivals',
  bridge_feed_late_finds: 'bridge_feed_late_arrivals',
  bridge_late_finds_total: 'bridge_late_arrivals_total',
  bridge_versions_doubted: 'bridge_suspect_versions',
  settleEvent: 'applyEventChange',
  settleMs: 'lateEffectMs',
  rubbish: 'fuzz',
  mend: 'fix, repair',
  mends: 'fixes, repairs',
  mended: 'fixed, repaired',
  mending: 'fixing, repairing',
};

const oldPhrases: Readonly<Record<string, string>> = {
  'careful walk': 'window scan',
  'late find': 'late arrival',
  'leads nowhere': 'loops',
  'in doubt': 'suspect, or uncertain',
  'whoever comes first': 'the actor',
  'quick news': 'live read',
};

/** File names without their ending. */
const oldFiles: readonly string[] = [
  'careful-walk',
  'careful-pull',
  'settle-feed',
  'settle-event',
  'doubt-store',
  'habits',
  'learn-habits',
  'sit-out-quota',
  'pace-news',
  'presence',
  'process-mark',
  'time-keeper',
  'rare-log',
  'trouble-log',
  'note-mentions',
  'note-settings',
  'flow-shape',
  'fitting-keys',
  'fresh-statistics',
  'told',
  'edge',
  'http-edge',
  'tcp-edge',
  'rubbish',
  'backoff',
];

/** Texts of others: the contract as it was given, and what a real ERP answers. */
const isForeign = (path: string) => /^docs\/spec\/|^package-lock\.json$|recordings?\//.test(path);

let files: Map<string, string>;

beforeAll(async () => {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' });
  const paths = listed.split('\n').filter((path) => /\.(ts|sql|md|json|ya?ml|sh)$/.test(path) && path !== self);
  const read = async (path: string) => [path, await readFile(join(root, path), 'utf8').catch(() => '')] as const;
  files = new Map(await Promise.all(paths.filter((path) => !isForeign(path)).map(read)));
});

/** `path:line` of each place. */
function placesOf(pattern: RegExp): string[] {
  return [...files].flatMap(([path, text]) =>
    text.split('\n').flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}`] : [])),
  );
}

describe('words that were replaced', () => {
  test.each(Object.entries(oldNames))('the name %s is now: %s', (name) => {
    expect(placesOf(new RegExp(`(?<![A-Za-z0-9_])${name}(?![A-Za-z0-9_])`))).toEqual([]);
  });

  test.each(Object.entries(oldPhrases))('the phrase "%s" is now: %s', (phrase) => {
    expect(placesOf(new RegExp(phrase, 'i'))).toEqual([]);
  });

  test('no file has an old name', () => {
    const named = [...files.keys()].filter((path) => oldFiles.includes(basename(path).replace(/(\.test)?\.\w+$/, '')));
    expect(named).toEqual([]);
  });
});

describe('exported names', () => {
  const exported =
    /^export (?:declare )?(?:async )?(?:abstract )?(?:function\*?|const|class|interface|type) +([\w$]+)/gm;

  /** The exported names of some files that stand for more than one thing. */
  function repeated(isIn: (path: string) => boolean): string[] {
    const places = new Map<string, string[]>();
    for (const [path, text] of files)
      if (path.endsWith('.ts') && isIn(path))
        for (const [, name = ''] of text.matchAll(exported)) places.set(name, [...(places.get(name) ?? []), path]);
    // A schema and the type that is inferred of it may share a name, in one file.
    return [...places].filter(([, at]) => new Set(at).size > 1).map(([name, at]) => `${name}: ${at.join(', ')}`);
  }

  test('stand for one thing in src', () => {
    expect(repeated((path) => path.startsWith('src/'))).toEqual([]);
  });

  test.each(['file', 'http', 'memory', 'postgres', 'sap-s4hana', 'tryton'])(
    'stand for one thing in the connector %s',
    (name) => {
      expect(repeated((path) => path.startsWith(`connectors/${name}/`))).toEqual([]);
    },
  );
});
