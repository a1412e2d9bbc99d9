/** The subcommands of `bridge`, as one table. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { httpsUrl } from '#contract/scalars.ts';
import { AppError } from '#platform/errors.ts';
import { addBridgeSubcommand, countOption, whenCalled, wholeNumber } from './command-options.ts';
import type { BackfillOptions } from './commands/bridge-backfill.ts';
import type { FindOptions } from './commands/bridge-find.ts';
import type { HistoryOptions } from './commands/bridge-history.ts';
import type { ReconcileOptions } from './commands/bridge-reconcile.ts';
import type { ShowOptions } from './commands/bridge-show.ts';
import { timeOption } from './times.ts';

const runAlertTest = whenCalled(async () => (await import('./commands/bridge-alerts.ts')).runAlertTest);
const runAudit = whenCalled(async () => (await import('./commands/bridge-audit.ts')).runAudit);
const runBackfill = whenCalled(async () => (await import('./commands/bridge-backfill.ts')).runBackfill);
const runBackfillCancel = whenCalled(async () => (await import('./commands/bridge-backfill.ts')).runBackfillCancel);
const runBackfillList = whenCalled(async () => (await import('./commands/bridge-backfill.ts')).runBackfillList);
const runCheckpointSet = whenCalled(async () => (await import('./commands/bridge-checkpoint.ts')).runCheckpointSet);
const runDeadLetters = whenCalled(async () => (await import('./commands/bridge-dead-letters.ts')).runDeadLetters);
const runDoctor = whenCalled(async () => (await import('./commands/bridge-doctor.ts')).runDoctor);
const runDocumentSchema = whenCalled(
  async () => (await import('./commands/bridge-document-schema.ts')).runDocumentSchema,
);
const runFind = whenCalled(async () => (await import('./commands/bridge-find.ts')).runFind);
const runHistory = whenCalled(async () => (await import('./commands/bridge-history.ts')).runHistory);
const runLink = whenCalled(async () => (await import('./commands/bridge-link.ts')).runLink);
const runMappingTry = whenCalled(async () => (await import('./commands/bridge-mapping-try.ts')).runMappingTry);
const runPause = whenCalled(async () => (await import('./commands/bridge-pause.ts')).runPause);
const runResume = whenCalled(async () => (await import('./commands/bridge-pause.ts')).runResume);
const runPlan = whenCalled(async () => (await import('./commands/bridge-plan.ts')).runPlan);
const runReconcile = whenCalled(async () => (await import('./commands/bridge-reconcile.ts')).runReconcile);
const runReplay = whenCalled(async () => (await import('./commands/bridge-replay.ts')).runReplay);
const runRestored = whenCalled(async () => (await import('./commands/bridge-restored.ts')).runRestored);
const runRun = whenCalled(async () => (await import('./commands/bridge-run.ts')).runRun);
const runShow = whenCalled(async () => (await import('./commands/bridge-show.ts')).runShow);
const runStatus = whenCalled(async () => (await import('./commands/bridge-status.ts')).runStatus);
const runWebhookDelete = whenCalled(async () => (await import('./commands/bridge-webhooks.ts')).runWebhookDelete);
const runWebhookList = whenCalled(async () => (await import('./commands/bridge-webhooks.ts')).runWebhookList);
const runWebhookRegister = whenCalled(async () => (await import('./commands/bridge-webhooks.ts')).runWebhookRegister);
const runWebhookRotate = whenCalled(async () => (await import('./commands/bridge-webhooks.ts')).runWebhookRotate);
const runWebhookTest = whenCalled(async () => (await import('./commands/bridge-webhooks.ts')).runWebhookTest);

const seconds = (flags: string, what: string) => new Option(flags, what).argParser(wholeNumber(0, 1_000_000_000));
const time = (flags: string, what: string) => new Option(flags, what).argParser(timeOption);
const limit = (number: number) => countOption('--limit <number>', 'how many are shown at most', number);

/** Adds every subcommand to `bridge`. */
export function addBridgeCommands(bridge: Command): void {
  addBridgeSubcommand(
    bridge,
    'status',
    'show what every feed, flow and intake is doing, and how far behind it is',
    runStatus,
  ).addOption(seconds('--max <seconds>', 'exit with 1 also when one of them is further behind'));
  addBridgeSubcommand(
    bridge,
    'doctor',
    'find what is wrong, or will be at the next start, and say what to do: settings, sources, ERPs, mapping, database',
    runDoctor,
  );
  addBridgeSubcommand(
    bridge,
    'run',
    'read all feeds to their end, deliver everything that is due, work the intakes, and exit',
    runRun,
  ).addOption(countOption('--patience <seconds>', 'how long to wait for documents that are tried again', 60));
  addBridgeSubcommand(
    bridge,
    'restored',
    'after the database was lost or restored on its server: each document is looked up in its ERP before it is written',
    runRestored,
  ).addOption(time('--made <time>', 'when the backup was made'));
  addHistoryCommands(bridge);
  addBridgeSubcommand(
    bridge,
    'link <intake> <key> [id]',
    "say which supplier or event of the service an ERP's record is",
    runLink,
  ).option('--new', 'it is a new one');
  addFlowCommands(bridge);
  addFeedCommands(bridge);
  addWebhooksCommand(bridge);
  addAlertsCommand(bridge);
  addBridgeSubcommand(
    bridge,
    'document-schema [kind]',
    'print the JSON Schema of the documents that connectors get',
    runDocumentSchema,
  );
  for (const command of bridge.commands) command.helpGroup(groupOf(command.name()));
  bridge.addHelpText('after', exitCodes);
}

/** The headings of `bridge --help`, which the reference follows. */
const groups: Readonly<Record<string, readonly string[]>> = {
  'Look:': [
    'status',
    'doctor',
    'find',
    'history',
    'show',
    'dead-letters',
    'plan',
    'reconcile',
    'mapping',
    'document-schema',
  ],
  'Deliver:': ['run', 'pause', 'resume', 'replay', 'link'],
  'Read again:': ['checkpoint', 'backfill', 'audit'],
  'Set up and recover:': ['webhooks', 'alerts', 'restored'],
};

function groupOf(name: string): string {
  const [group] = Object.entries(groups).find(([, names]) => names.includes(name)) ?? [];
  if (group === undefined) throw new AppError('internal', `The command ${name} stands in no group.`);
  return group;
}

/** The options that choose among the actions of an audit log. */
export function addActionFilters(command: Command): Command {
  return command
    .option('--name <name>', 'of this user')
    .option('--what <action>', 'this kind of action: flow, or flow.pause')
    .option('--object <object>', 'on this object, like "flow erp-inbox"')
    .addOption(new Option('--outcome <outcome>', 'with this outcome').choices(['allowed', 'failed', 'refused']))
    .addOption(time('--from <time>', 'actions from this time on'))
    .addOption(time('--to <time>', 'actions before this time'))
    .addOption(limit(50));
}

/** The words of a command; one that the shell got in quotation marks is one phrase. */
const wordsOf = (words: string | readonly string[] | undefined) => [words ?? []].flat();

function addHistoryCommands(bridge: Command): void {
  const ofFlow = () => new Option('--flow <name>', 'of this flow only');
  const ofKind = () => new Option('--kind <kind...>', 'documents of these kinds only');
  addBridgeSubcommand<FindOptions>(
    bridge,
    'find <text...>',
    "where documents are, and why: by an event's or a supplier's name, a reference, any id",
    (options, words) => runFind(options, wordsOf(words)),
  )
    .addOption(ofFlow())
    .addOption(ofKind())
    .addOption(limit(20));
  addBridgeSubcommand<HistoryOptions>(
    bridge,
    'history [text...]',
    "one document's way, from the change at the service to the ERP's answer; without words the latest attempts of all",
    (options, words) => runHistory(options, wordsOf(words)),
  )
    .addOption(ofFlow())
    .addOption(ofKind())
    .addOption(countOption('--limit <number>', 'how many attempts are shown at most', 50))
    .addOption(time('--from <time>', 'attempts from this time on'))
    .addOption(time('--to <time>', 'attempts before this time'));
  addBridgeSubcommand<ShowOptions>(
    bridge,
    'show <text...>',
    'one document, and what differs from what the ERP has or from another version',
    (options, words) => runShow(options, wordsOf(words)),
  )
    .addOption(ofFlow())
    .addOption(ofKind())
    .addOption(
      new Option('--sent <version>', 'a version that was sent, instead of the document as it is now').argParser(
        wholeNumber(1, 1_000_000),
      ),
    )
    .addOption(
      new Option('--against <version>', 'compare with this version (default: what the ERP has)').argParser(
        wholeNumber(1, 1_000_000),
      ),
    );
}

function addFlowCommands(bridge: Command): void {
  addBridgeSubcommand(
    bridge,
    'plan [flow]',
    'show what a flow would write to its ERP now, or an intake send to the service; does neither',
    runPlan,
  )
    .option('--all', 'also documents that are not due')
    .addOption(limit(100))
    .option('--event <event...>', 'documents of these sourcing events only: name, reference or id')
    .option('--supplier <supplier...>', 'documents about these suppliers only: name, external id or id');
  addBridgeSubcommand<ReconcileOptions>(
    bridge,
    'reconcile [flow]',
    'compare what was delivered with what the ERPs hold now, value by value; writes nothing to them',
    runReconcile,
  )
    .option('--event <event...>', 'documents of these sourcing events only: name, reference or id')
    .option('--out <folder>', 'write the signed report there: JSON, signature, a page to print, and the public key')
    .addOption(limit(100))
    .option('--repair', 'then write what differs again, after a question')
    .option('--yes', 'do not ask');
  const mapping = bridge.command('mapping').description('try the mapping of a flow');
  addBridgeSubcommand(
    mapping,
    'try <flow>',
    'show the documents that the configuration makes from the mirror',
    runMappingTry,
  )
    .option('--event <id...>', 'of these sourcing events (default: those that changed last)')
    .addOption(limit(3));
  addBridgeSubcommand(
    bridge,
    'pause <flow>',
    'deliver nothing of a flow or an intake until it is resumed',
    runPause,
  ).option('--reason <text>', 'shown wherever the flow is');
  addBridgeSubcommand(bridge, 'resume <flow>', 'let a paused flow or intake go on', runResume).option(
    '--agree',
    'to the many withdrawals or archivings for which it was paused: they are intended',
  );
  addBridgeSubcommand(
    bridge,
    'dead-letters',
    'show the documents that an ERP refused and the records that a service refused, and why',
    runDeadLetters,
  )
    .option('--flow <name>', 'of this flow only')
    .option('--event <event...>', 'of these sourcing events only: name, reference or id')
    .option('--supplier <supplier...>', 'about these suppliers only: name, external id or id')
    .addOption(limit(50));
  addBridgeSubcommand(
    bridge,
    'replay',
    'write documents of a flow again, or compare suppliers of an intake again',
    runReplay,
  )
    .requiredOption('--flow <name>', 'the flow or the intake')
    .option('--key <key...>', 'the documents with these keys')
    .option('--kind <kind...>', 'documents of these kinds')
    .option('--event <event...>', 'documents of these sourcing events: name, reference or id')
    .option('--supplier <supplier...>', 'documents about these suppliers: name, external id or id')
    .option('--dead', 'dead letters only')
    .option('--all', 'every document of the flow')
    .option('--yes', 'do not ask');
}

function addFeedCommands(bridge: Command): void {
  const checkpoint = bridge.command('checkpoint').description('read a feed from another time');
  addBridgeSubcommand(
    checkpoint,
    'set <feed> [time]',
    'read <source>/<feed> from this time on, or from its beginning',
    runCheckpointSet,
  ).option('--yes', 'do not ask');
  const backfill = bridge.command('backfill').description('read a range of time again, beside the live pull');
  addBridgeSubcommand<BackfillOptions>(
    backfill,
    'start <feed>',
    'read a range of <source>/<feed> again; a process with the role pull does it',
    runBackfill,
  )
    .addOption(
      time('--from <time>', 'the beginning of the range: 2030-12-31T23:59:59Z, or a date').makeOptionMandatory(),
    )
    .addOption(time('--to <time>', 'the end of the range (default: now)'));
  addBridgeSubcommand(backfill, 'list', 'list the open backfills and the latest finished ones', runBackfillList);
  addBridgeSubcommand(backfill, 'cancel <number>', 'stop a backfill', runBackfillCancel);
  addBridgeSubcommand(
    bridge,
    'audit [feed]',
    'read <source>/<feed>, or all feeds, again and count late arrivals',
    runAudit,
  );
}

function addWebhooksCommand(bridge: Command): void {
  const webhooks = bridge
    .command('webhooks')
    .description("register, rotate, test, list and delete the webhooks of a source's service");
  addBridgeSubcommand(webhooks, 'register', 'have the service announce changes to this bridge', runWebhookRegister)
    .requiredOption('--source <name>', 'the source')
    .option(
      '--url <url>',
      'the URL by which the service reaches this bridge (default: https://<public_host>:<port>/webhooks/<source>)',
      urlOf,
    );
  addBridgeSubcommand(
    webhooks,
    'rotate',
    "replace the webhooks' signing keys; no notification is lost",
    runWebhookRotate,
  ).requiredOption('--source <name>', 'the source');
  addBridgeSubcommand(webhooks, 'test', 'have the service send a test, and wait until it has arrived', runWebhookTest)
    .requiredOption('--source <name>', 'the source')
    .option('--uuid <uuid>', 'this webhook only')
    .addOption(countOption('--timeout <seconds>', 'how long the test may take', 30));
  addBridgeSubcommand(
    webhooks,
    'list',
    'list the webhooks of the service, and what this bridge knows of them',
    runWebhookList,
  ).requiredOption('--source <name>', 'the source');
  addBridgeSubcommand(webhooks, 'delete', 'delete the webhooks that were registered here', runWebhookDelete)
    .requiredOption('--source <name>', 'the source')
    .option('--uuid <uuid>', 'this webhook only, also when it was not registered here');
}

function urlOf(text: string): string {
  if (!httpsUrl.safeParse(text).success) throw new InvalidArgumentError('It must be a URL that begins with https://.');
  return text;
}

function addAlertsCommand(bridge: Command): void {
  const alerts = bridge.command('alerts').description('the messages about conditions');
  addBridgeSubcommand(alerts, 'test', 'send a test message to the webhook and by e-mail, as set', runAlertTest);
}

const exitCodes = `
Exit codes of the commands: 0 done and all is well; 1 failed or needs attention;
2 wrong usage or settings.`;
