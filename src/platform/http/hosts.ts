/**
 * Which host names a port answers to. A page of an attacker can have its own name resolve to this machine, and then reads
 * what the port answers as if it were its own (DNS rebinding). A request that names the machine by its IP address cannot
 * come about in that way.
 */
import { isIP } from 'node:net';
import type { RequestHandler } from 'express';
import { AppError } from '../errors.ts';

/**
 * Refuses requests to any other host than `localhost`, an IP address or one of `names`; `setting` has the names. Health is
 * told under any name: some checks send none, and it is no secret.
 */
export function allowHosts({ names, setting }: { names: readonly string[]; setting: string }): RequestHandler {
  const allowed = new Set(['localhost', ...names]);
  return (request, _response, next) => {
    const host = URL.parse(`http://${request.headers.host ?? ''}`)?.hostname.replace(/\.$/, '') ?? '';
    if (request.path !== '/healthz' && !allowed.has(host) && isIP(host.replace(/^\[(.*)\]$/, '$1')) === 0)
      throw new AppError(
        'forbidden',
        `This port does not answer under this host name. Call it by its IP address, or add the name to ${setting}.`,
      );
    next();
  };
}
