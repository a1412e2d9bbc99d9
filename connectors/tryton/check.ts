/** Whether the flow can work, a sentence for each thing that has to be right. Changes nothing. */
import { type CheckResult, ConfigError, z } from 'sourcing-bridge/connector';
import type { ReadReferenceData } from './reference-data.ts';
import { ServerFault, type Tryton } from './rpc.ts';
import { asConnectorError } from './send-batch.ts';
import type { Settings } from './settings.ts';

const access = z.record(z.string(), z.object({ read: z.unknown(), write: z.unknown(), create: z.unknown() }));

interface Need {
  readonly name: string;
  readonly models: readonly string[];
  readonly module: string;
  readonly group: string;
  /** Only read. */
  readonly isRead?: boolean;
  /** What the flow has to do for it to matter, where it may not. */
  readonly onlyFor?: string;
}

const needsOf = ({ awards }: Settings): readonly Need[] => [
  {
    name: 'suppliers',
    models: ['party.party', 'party.address', 'party.contact_mechanism', 'party.identifier'],
    module: 'party',
    group: 'Party Administration or Purchase',
  },
  { name: 'purchases', models: ['purchase.purchase', 'purchase.line'], module: 'purchase', group: 'Purchase' },
  {
    name: 'supplier prices',
    models: ['purchase.product_supplier', 'purchase.product_supplier.price'],
    module: 'purchase',
    group: 'Purchase',
    ...(awards === 'purchases' ? { onlyFor: 'awards are to become prices' } : {}),
  },
  { name: 'attachments', models: ['ir.attachment'], module: 'ir', group: 'Purchase' },
  {
    name: 'quotations',
    models: ['purchase.request', 'purchase.request.quotation'],
    module: 'purchase_request_quotation',
    group: 'Purchase Request',
    onlyFor: 'the flow delivers quotations',
  },
  {
    name: 'requisitions',
    models: ['purchase.requisition'],
    module: 'purchase_requisition',
    group: 'Purchase Requisition Approval',
    isRead: true,
    onlyFor: 'requisitions are read',
  },
];

export async function check(
  { tryton, settings, readReferenceData }: { tryton: Tryton; settings: Settings; readReferenceData: ReadReferenceData },
  signal: AbortSignal,
): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  const attempt = async (name: string, run: () => Promise<string>): Promise<boolean> => {
    try {
      results.push({ name, ok: true, message: await run() });
      return true;
    } catch (error) {
      results.push({ name, ok: false, message: asConnectorError(error).message });
      return false;
    }
  };
  async function faultOf(models: readonly string[], isRead: boolean): Promise<'rights' | 'module' | undefined> {
    try {
      const rights = await tryton.ask('ir.model.access.get_access', [models], access, signal);
      const wanted = isRead ? (['read'] as const) : (['read', 'write', 'create'] as const);
      return models.every((model) => wanted.every((right) => Boolean(rights[model]?.[right]))) ? undefined : 'rights';
    } catch (error) {
      if (error instanceof ServerFault || error instanceof ConfigError) return 'module';
      throw error;
    }
  }

  const isIn = await attempt('login', async () => {
    const { companyName } = await tryton.self(signal);
    return `The user ${settings.user} is logged in to ${settings.database} at ${settings.url}, for the company ${companyName}.`;
  });
  if (!isIn) return results;
  for (const { name, models, module, group, isRead = false, onlyFor } of needsOf(settings))
    await attempt(name, async () => {
      const fault = await faultOf(models, isRead);
      if (fault === undefined) return `The user may ${isRead ? 'read' : 'create and change'} ${name}.`;
      const told = `The user ${settings.user} cannot ${isRead ? 'read' : 'create and change'} ${name}: ${fault === 'rights' ? `add the user to the group ${group}` : `activate the module ${module}`}.`;
      if (onlyFor === undefined) throw new Error(told);
      return `${told} This matters only when ${onlyFor}.`;
    });
  await attempt('company data', async () => {
    const data = await readReferenceData([], signal);
    if (settings.unit !== undefined) data.unit(settings.unit);
    if (settings.product !== undefined) data.product(settings.product);
    if (data.warehouse({}) === null) throw new Error('Tryton has several warehouses: name one (settings.warehouse).');
    const product =
      settings.product === undefined
        ? 'no product is set: lines without one have a description only'
        : `the product ${settings.product} exists`;
    return `The warehouse exists; ${product}; prices take ${data.priceDecimals} decimals.`;
  });
  return results;
}
