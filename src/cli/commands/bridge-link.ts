/** `bridge link`: which supplier of the service an ERP's supplier is, or which event a requisition is in. */
import { linkIntakeRecord } from '#bridge/intake/control-intakes.ts';
import { linkRequisition } from '#bridge/intake/requisitions/link-requisition.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type BridgeCommandOptions, findIntake, withBridge } from '../bridge-command.ts';
import { print } from '../output.ts';

export interface LinkRecordOptions extends BridgeCommandOptions {
  new?: boolean;
}

/** Says which supplier of the service a supplier of the ERP is, or which event a requisition is in. */
export function runLink(
  options: LinkRecordOptions,
  name: string,
  erpKey: string,
  key: string | undefined,
): Promise<number> {
  return withBridge(
    options,
    async ({ settings, database, clock, perform }) => {
      const { prefix, stream } = findIntake(settings, name);
      if ((key === undefined) !== (options.new === true))
        throw new AppError('invalid', 'Name what it is at the service, the external id or the event, or say --new.');
      if (stream === 'requisition') {
        await perform({ what: 'intake.link', object: `intake ${name}`, details: { erpKey, key: key ?? null } }, () =>
          linkRequisition(database, { intake: name, erpKey, entity: key }, timestampNow(clock)),
        );
        const text = key === undefined ? `${erpKey} of ${name} is made anew.` : `${erpKey} of ${name} is in ${key}.`;
        print(options, { intake: name, erpKey, key: key ?? null }, () => text);
        return 0;
      }
      const linked = key ?? prefix + erpKey;
      await perform({ what: 'intake.link', object: `intake ${name}`, details: { erpKey, key: linked } }, () =>
        linkIntakeRecord(database, { intake: name, erpKey, key, prefix }, timestampNow(clock)),
      );
      print(options, { intake: name, erpKey, key: linked }, () => `${erpKey} of ${name} is the supplier ${linked}.`);
      return 0;
    },
    { withoutSecrets: true },
  );
}
