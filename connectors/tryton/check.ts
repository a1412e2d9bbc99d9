/** Checks whether the flow can work with this Tryton: login, rights, modules, settings. Changes nothing. */
import { type CheckResult, ConfigError, createCheckList, z } from 'sourcing-bridge/connector';
import type { ReadReferenceData } from './reference-data.ts';
import { ServerFault, type Tryton } from './rpc.ts';
import type { Settings } from './settings.ts';

const access = z.record(z.string(), z.object({ read: z.unknown(), write: z.unknown(), create: z.unknown() }));

interface Need {
  readonly name: string;
  readonly models: readonly string[];
  readonly module: string;
  readonly group: string;
  /** The connector reads these models and never writes them. */
  readonly isRead?: boolean;
  /** When the flow needs this; undefined: always. */
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
    ...(awards === 'purchases' ? { onlyFor: 'awards become prices' } : {}),
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
    models: ['purchase.requisition', 'purchase.request'],
    module: 'purchase_requisition',
    group: 'Purchase Requisition Approval, and to Purchase Request',
    isRead: true,
    onlyFor: 'requisitions are read',
  },
  {
    // Tryton lets a user add a note to what the user may write.
    name: 'notes on requisitions',
    models: ['ir.note', 'purchase.requisition'],
    module: 'purchase_requisition',
    group: 'Purchase Requisition',
    onlyFor: 'requisitions are to show what became of them',
  },
  {
    name: 'purchase requests of requisitions',
    models: ['purchase.request', 'purchase.requisition.line'],
    module: 'purchase_requisition',
    group: 'Purchase Request, or to Purchase Requisition',
    onlyFor: 'awards name requisitions of this Tryton',
  },
];

/**
 * One result, with a sentence for an operator, per thing that has to be right. If the login fails, it is the only
 * result.
 */
export async function check(
  { tryton, settings, readReferenceData }: { tryton: Tryton; settings: Settings; readReferenceData: ReadReferenceData },
  signal: AbortSignal,
): Promise<CheckResult[]> {
  const { results, attempt } = createCheckList();
  async function missingOf(models: readonly string[], isRead: boolean): Promise<'rights' | 'module' | undefined> {
    try {
      const rights = await tryton.ask('ir.model.access.get_access', [models], access, signal);
      const wanted = isRead ? (['read'] as const) : (['read', 'write', 'create'] as const);
      return models.every((model) => wanted.every((right) => Boolean(rights[model]?.[right]))) ? undefined : 'rights';
    } catch (error) {
      if (error instanceof ServerFault || error instanceof ConfigError) return 'module';
      throw error;
    }
  }

  const isLoggedIn = await attempt('login', async () => {
    const { companyName } = await tryton.session(signal);
    return `The user ${settings.user} is logged in to ${settings.database} at ${settings.url}, for the company ${companyName}.`;
  });
  if (!isLoggedIn) return results;
  for (const { name, models, module, group, isRead = false, onlyFor } of needsOf(settings))
    await attempt(name, async () => {
      const missing = await missingOf(models, isRead);
      if (missing === undefined) return `The user may ${isRead ? 'read' : 'create and change'} ${name}.`;
      const message = `The user ${settings.user} cannot ${isRead ? 'read' : 'create and change'} ${name}: ${missing === 'rights' ? `add the user to the group ${group}` : `activate the module ${module}`}.`;
      if (onlyFor === undefined) throw new Error(message);
      return `${message} This matters only when ${onlyFor}.`;
    });
  await attempt('company data', async () => {
    const data = await readReferenceData([], signal);
    if (settings.unit !== undefined) data.unit(settings.unit);
    if (settings.product !== undefined) data.product(settings.product);
    if (data.warehouse({}) === null) throw new Error('Tryton has several warehouses: name one in settings.warehouse.');
    const product =
      settings.product === undefined
        ? 'settings.product is not set: lines whose mapping names no product get only a description'
        : `the product ${settings.product} exists`;
    return `The warehouse exists; ${product}; prices have up to ${data.priceDecimals} decimals.`;
  });
  return results;
}
