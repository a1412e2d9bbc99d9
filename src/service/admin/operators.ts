import { z } from 'zod';
import { createdOperator, createOperatorRequest, operatorList } from '#contract/admin.ts';
import { listQuery } from '#contract/list.ts';
import { uuid } from '#contract/scalars.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { AppError, throwIssues } from '#platform/errors.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Operator } from '../caller.ts';
import { answerList, renderList } from '../list-envelope.ts';
import { addOperator, newOperatorToken, settingsOperator } from './operator-store.ts';

const path = '/admin/operators';

/** POST /admin/operators: the token is in this answer and in no other; the database holds its hash. */
export function createOperator({ clock }: { clock: Clock }) {
  return endpoint<Operator, typeof createOperatorRequest>({
    method: 'POST',
    path,
    scope: 'operator',
    summary: 'Add an operator with a name and a token',
    answers: { 201: createdOperator },
    body: createOperatorRequest,
    handle: async ({ body: { name, expires_at: expiresAt }, caller: { unit } }) => {
      const now = timestampNow(clock);
      if (expiresAt !== undefined && expiresAt <= now)
        throwIssues(
          [{ path: 'expires_at', message: 'must be in the future' }],
          (issue) => `The body is not valid: ${issue.path} ${issue.message}.`,
        );
      const token = newOperatorToken();
      const taken = name === settingsOperator;
      const id = taken ? undefined : await addOperator(unit.tx, { name, token, expiresAt: expiresAt ?? null, now });
      if (id === undefined)
        throw new AppError('conflict', `There is an operator "${name}" already: revoke that one first.`);
      return { status: 201, body: { id, name, token } };
    },
  });
}

interface OperatorRow {
  id: string;
  name: string;
  created: Timestamp;
  expires_at: Timestamp | null;
  revoked_at: Timestamp | null;
  replaces_setting: boolean;
}

const listOperatorsQuery = z.strictObject(listQuery);

/** GET /admin/operators: without the tokens themselves. */
export const listOperators = endpoint<Operator, z.ZodUndefined, typeof listOperatorsQuery>({
  method: 'GET',
  path,
  scope: 'operator',
  summary: 'List operators',
  answers: { 200: operatorList },
  query: listOperatorsQuery,
  handle: async ({ query, baseUrl, caller: { unit } }) => {
    const body = await renderList(
      unit.tx,
      {
        select: 'select id, name, created, expires_at, revoked_at, replaces_setting from service.operators',
        orderBy: 'created, id',
        params: [],
        query,
        url: baseUrl + path,
      },
      (row: OperatorRow) => row,
    );
    return answerList(body);
  },
});

/** DELETE /admin/operators/{id}: the token is refused as soon as this is committed. */
export function revokeOperator({ clock }: { clock: Clock }) {
  return endpoint<Operator>({
    method: 'DELETE',
    path: `${path}/:id`,
    scope: 'operator',
    summary: "Revoke an operator's token",
    answers: { 204: null },
    handle: async ({ params, caller: { unit } }) => {
      const id = uuid.safeParse(params['id']);
      const rows = id.success
        ? await unit.tx.query(
            `update service.operators set revoked_at = coalesce(revoked_at, $2)
             where id = $1 and not replaces_setting returning id`,
            [id.data, timestampNow(clock)],
          )
        : [];
      if (rows.length === 0) throw new AppError('not-found', 'There is no such operator.');
      return { status: 204 };
    },
  });
}
