import { invitationsRequest } from '#contract/desk.ts';
import type { Issue } from '#contract/issue.ts';
import { invitationsResult } from '#contract/live-event.ts';
import type { Clock } from '#platform/clock.ts';
import { throwIssues } from '#platform/errors.ts';
import { repeatsIn } from '../domain/issue.ts';
import { loadEvent } from '../events/event-store.ts';
import { deskCommand } from './command.ts';
import { renderInvitation } from './render-event.ts';

/**
 * POST invitations: invites suppliers with all their contacts. A supplier that is invited already is invited once more.
 * A draft's invitations are sent, and counted, when it is published. An archived supplier cannot be invited, but keeps
 * the invitations it has. Updates no feed.
 */
export function inviteSuppliers({ clock }: { clock: Clock }) {
  return deskCommand({
    command: 'invite',
    method: 'POST',
    path: '/invitations',
    summary: 'Invite suppliers',
    answers: { 200: invitationsResult },
    body: invitationsRequest,
    clock,
    run: async ({ event, body, unit }) => {
      const rows = await unit.tx.query<{ id: string; external_id: string; archived: boolean }>(
        'select id, external_id, archived from service.suppliers where organisation_id = $1 and external_id = any($2)',
        [event.organisationId, body.suppliers],
      );
      const known = new Map(rows.map((row) => [row.external_id, row]));
      const issues: Issue[] = [];
      const repeats = repeatsIn(body.suppliers);
      for (const [index, externalId] of body.suppliers.entries()) {
        const path = `suppliers[${index}]`;
        const supplier = known.get(externalId);
        if (!supplier) issues.push({ path, message: `there is no supplier "${externalId}"` });
        else if (supplier.archived) issues.push({ path, message: `supplier "${externalId}" is archived` });
        else if (repeats.has(index)) issues.push({ path, message: `supplier "${externalId}" is named twice` });
      }
      throwIssues(issues, ({ path, message }) => `The body is not valid: ${path}: ${message}.`);
      await unit.tx.query(
        `insert into service.invitations (event_id, supplier_id, invite_count)
         select $1::uuid, supplier_id, $3::int from unnest($2::uuid[]) as supplier_id
         on conflict (event_id, supplier_id) do update set invite_count = invitations.invite_count + $3::int`,
        [event.id, rows.map(({ id }) => id), event.status === 'DRAFT' ? 0 : 1],
      );
      const { invitations } = await loadEvent(unit.tx, event.organisationId, event.id, 'read');
      const invited = invitations.filter(({ externalId }) => known.has(externalId));
      return { status: 200, body: { suppliers: invited.map(renderInvitation) } };
    },
  });
}
