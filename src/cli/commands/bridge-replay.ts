/** `bridge replay`: writes documents again: one, those that match a filter, or all of a flow. */
import { replayIntake } from '#bridge/intake/control-intakes.ts';
import { replayDocuments } from '#bridge/ledger/flows/control-flows.ts';
import { type DocumentKind, documentKinds } from '#connector/documents.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type BridgeCommand, type BridgeCommandOptions, findFlow, isIntake, withBridge } from '../bridge-command.ts';
import { confirm } from '../confirm.ts';
import { subjectIds } from '../named-subjects.ts';
import { print } from '../output.ts';

export interface ReplayOptions extends BridgeCommandOptions {
  flow: string;
  key?: string[];
  kind?: string[];
  event?: string[];
  supplier?: string[];
  dead?: boolean;
  all?: boolean;
  yes?: boolean;
}

/** Makes the documents due; the pusher of a daemon, or `bridge run`, writes them. */
export function runReplay(options: ReplayOptions): Promise<number> {
  const replay = async (command: BridgeCommand) => {
    const { settings, database, clock, signal, perform } = command;
    if (isIntake(settings, options.flow)) return replayOfIntake(command, options);
    const { name: flow, source } = findFlow(settings, options.flow);
    const kinds = options.kind?.map(documentKind);
    const isFiltered = [options.key, kinds, options.event, options.supplier, options.dead].some(
      (filter) => filter !== undefined,
    );
    if (isFiltered === (options.all === true))
      throw new AppError(
        'invalid',
        'Say what to replay: --key, --kind, --event, --supplier or --dead (several must all match), or --all.',
      );
    const named = await subjectIds(command, [source], options, { single: true });
    const many = options.key === undefined;
    const what = options.all ? `all documents of ${flow}` : `these documents of ${flow}`;
    if (many && !(await confirm(`Write ${what} to the ERP again?`, options, signal))) return 1;
    const filter = {
      ...(kinds && { kinds }),
      ...(options.key && { keys: options.key }),
      ...named,
      ...(options.dead && { dead: true }),
    };
    const count = await perform({ what: 'documents.replay', object: `flow ${flow}`, details: filter }, () =>
      replayDocuments(database, { flow, ...filter }, timestampNow(clock)),
    );
    print(options, { flow, replayed: count }, () =>
      count === 0
        ? 'No document matches.'
        : `${count === 1 ? '1 document is' : `${count} documents are`} due again: a process with the role push writes them, or bridge run.`,
    );
    return count === 0 ? 1 : 0;
  };
  return withBridge(options, replay, { withoutSecrets: true });
}

/** Of an intake: the records with these numbers or external ids, or the dead letters, are compared and sent again. */
async function replayOfIntake(
  { database, clock, signal, perform }: BridgeCommand,
  options: ReplayOptions,
): Promise<number> {
  const { flow: intake, key: keys, dead = false, all = false } = options;
  if (options.event || options.supplier || options.kind)
    throw new AppError('invalid', `"${intake}" is an intake: name suppliers with --key, or use --dead or --all.`);
  if ((keys !== undefined || dead) === all)
    throw new AppError('invalid', 'Say what to replay: --key or --dead (both must match), or --all.');
  const what = all ? `all suppliers of ${intake}` : `these suppliers of ${intake}`;
  if (keys === undefined && !(await confirm(`Compare ${what} with the service again?`, options, signal))) return 1;
  const filter = { intake, ...(keys && { keys }), dead };
  const count = await perform({ what: 'intake.replay', object: `intake ${intake}`, details: filter }, () =>
    replayIntake(database, filter, timestampNow(clock)),
  );
  print(options, { intake, replayed: count }, () =>
    count === 0
      ? 'No supplier matches.'
      : `${count === 1 ? '1 supplier is' : `${count} suppliers are`} compared again: a process with the role intake sends what differs, or bridge run.`,
  );
  return count === 0 ? 1 : 0;
}

function documentKind(name: string): DocumentKind {
  const kind = documentKinds.find((each) => each === name);
  if (kind) return kind;
  throw new AppError('invalid', `There is no kind of document "${name}"; the kinds are: ${documentKinds.join(', ')}.`);
}
