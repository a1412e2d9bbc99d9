/**
 * The agents of undici that hold the connections, one for each group, list of allowed networks and set of authorities. A
 * kept connection was checked for the caller that opened it: an organisation that may reach 10.0.0.0/8 must not leave a
 * connection there that another organisation, which may not, would find. And a group that waits for slow answers of a
 * host uses up its own connections there, not those of another group.
 *
 * `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` are followed, except to this machine itself.
 */
import type { LookupFunction } from 'node:net';
import type { SecureContext } from 'node:tls';
import { EnvHttpProxyAgent } from 'undici';
import { AppError } from '../errors.ts';

/** Above this number, the agent that was used longest ago is closed once its requests have ended. */
const agentsMax = 500;

export interface AgentOptions {
  readonly connectionsPerOrigin: number;
  readonly keepAliveMs: number;
  readonly connectTimeoutMs: number;
}

interface Connect {
  readonly secureContext: SecureContext;
  readonly lookup: LookupFunction;
}

export interface Agents {
  /** Returns the agent for the key, and makes it with what `connect` returns if there is none. */
  agentOf(key: string, connect: () => Connect): EnvHttpProxyAgent;
  /** Ends every request and connection; one that is not made yet ends with its own time limit. */
  close(): Promise<void>;
}

/** Creates no agent yet. */
export function createAgents({ connectionsPerOrigin, keepAliveMs, connectTimeoutMs }: AgentOptions): Agents {
  /** Those that were used longest ago come first. */
  const agents = new Map<string, EnvHttpProxyAgent>();

  function open({ secureContext, lookup }: Connect): EnvHttpProxyAgent {
    const tls = { secureContext, rejectUnauthorized: true, timeout: connectTimeoutMs };
    return new EnvHttpProxyAgent({
      connections: connectionsPerOrigin,
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      // Each exchange has a time limit of its own.
      headersTimeout: 0,
      bodyTimeout: 0,
      allowH2: false,
      connect: { ...tls, lookup, autoSelectFamily: true, allowH2: false },
      // To a host behind the proxy.
      requestTls: { ...tls, allowH2: false },
      noProxy: `${process.env['no_proxy'] ?? process.env['NO_PROXY'] ?? ''},localhost,127.0.0.1,::1`,
    });
  }

  return {
    agentOf(key, connect) {
      const agent = agents.get(key) ?? open(connect());
      agents.delete(key);
      agents.set(key, agent);
      const [oldest] = agents;
      if (agents.size > agentsMax && oldest) {
        agents.delete(oldest[0]);
        void oldest[1].close();
      }
      return agent;
    },
    async close() {
      await Promise.all([...agents.values()].map((agent) => agent.destroy()));
      agents.clear();
    },
  };
}

/** Whether the environment names a proxy. Throws AppError `invalid` for one that is no URL, without its value. */
export function hasProxy(): boolean {
  const names = ['https_proxy', 'HTTPS_PROXY', 'http_proxy', 'HTTP_PROXY'].filter((name) => process.env[name]);
  for (const name of names)
    if (!/^https?:$/.test(URL.parse(process.env[name] ?? '')?.protocol ?? ''))
      throw new AppError('invalid', `${name} must be a URL like http://proxy.internal:3128.`);
  return names.length > 0;
}
