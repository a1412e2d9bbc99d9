/**
 * What a key may do at the desk that does not act for everybody: a buyer's key what buyers do, a supplier's key what that
 * one supplier does. What is in no list here is refused to both.
 */
import { AppError } from '#platform/errors.ts';

/** Whom a key acts for; undefined: everybody. */
export type DeskSide =
  | { readonly as: 'buyer' }
  | { readonly as: 'supplier'; readonly supplierId: string; readonly externalId: string };

/** What suppliers do. */
const ofSuppliers = new Set([
  'POST /desk/events/:id/bids',
  'POST /desk/events/:id/bids/withdraw',
  'POST /desk/events/:id/answers',
  'DELETE /desk/events/:id/answers/:supplier/:question/files/:file',
]);

/** What both do. A supplier reads the events that it is invited to, and nothing of others. */
const ofBoth = new Set(['POST /desk/files', 'GET /desk/events', 'GET /desk/events/:id']);

interface DeskCall {
  readonly endpoint: { readonly method: string; readonly path: string };
  readonly params: Readonly<Record<string, string>>;
}

/** Throws `forbidden` when the key's side may not make such calls. Calls outside of the desk are not its matter. */
export function checkDeskSide({ endpoint }: DeskCall, side: DeskSide | undefined): void {
  const call = `${endpoint.method} ${endpoint.path}`;
  if (side === undefined || !endpoint.path.startsWith('/desk/') || ofBoth.has(call)) return;
  const isOfSuppliers = ofSuppliers.has(call);
  if (side.as === 'buyer' && isOfSuppliers)
    throw new AppError('forbidden', 'This API key acts for buyers, and only a supplier does this.');
  if (side.as === 'supplier' && !isOfSuppliers)
    throw new AppError(
      'forbidden',
      `This API key acts for the supplier "${side.externalId}", and only a buyer does this.`,
    );
}

/** Throws `forbidden` when a supplier's key names another supplier, in the path or in the body. */
export function checkDeskSupplier(
  { endpoint, params, body }: DeskCall & { readonly body: unknown },
  side: DeskSide | undefined,
): void {
  if (side?.as !== 'supplier' || !ofSuppliers.has(`${endpoint.method} ${endpoint.path}`)) return;
  const named = params['supplier'] ?? (body as { supplier?: unknown } | undefined)?.supplier;
  if (named !== side.externalId)
    throw new AppError('forbidden', `This API key acts for the supplier "${side.externalId}" alone.`);
}
