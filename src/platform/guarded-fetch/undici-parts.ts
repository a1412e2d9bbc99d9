/**
 * The two parts of undici that are used here. All of the package, with its fetch, mocks, caches and web sockets, takes 12 MB
 * more in each process. Their paths are not documented, so the package is bound to a minor version.
 */
import { createRequire } from 'node:module';
import type { buildConnector as BuildConnector, Client as UndiciClient } from 'undici';

const require = createRequire(import.meta.url);

export const Client = require('undici/lib/dispatcher/client.js') as typeof UndiciClient;
export const buildConnector = require('undici/lib/core/connect.js') as typeof BuildConnector;
