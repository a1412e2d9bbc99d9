/** Two settings of one process that name the same port: the second server could not listen. */
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import { AppError } from '#platform/errors.ts';

export interface OwnPort {
  /** `bridge.console_port`. */
  readonly setting: string;
  readonly host: string;
  readonly port: number;
}

/** The ports of a bridge. */
export function bridgePorts(
  bridge: Pick<BridgeSettings, 'host' | 'port' | 'console_host' | 'console_port'>,
): OwnPort[] {
  return [
    { setting: 'bridge.port', host: bridge.host, port: bridge.port },
    { setting: 'bridge.console_port', host: bridge.console_host, port: bridge.console_port },
  ];
}

const everyAddress = ['0.0.0.0', '::', ''];

/** Throws an AppError `invalid` in one sentence when two of the ports are the same; 0 takes a free one. */
export function checkOwnPorts(ports: readonly OwnPort[]): void {
  for (const [index, one] of ports.entries())
    for (const other of ports.slice(0, index))
      if (one.port !== 0 && one.port === other.port && meet(one.host, other.host))
        throw new AppError(
          'invalid',
          `${one.setting} and ${other.setting} are both ${one.port}: give one of them another port.`,
        );
}

/** Whether servers on both hosts would need the same port of the same address. */
function meet(one: string, other: string): boolean {
  const plain = (host: string) => (host === 'localhost' ? '127.0.0.1' : host);
  return plain(one) === plain(other) || everyAddress.includes(one) || everyAddress.includes(other);
}
