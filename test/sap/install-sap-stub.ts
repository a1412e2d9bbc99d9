/**
 * What the stub of SAP S/4HANA is made of: SAP's descriptions of its OData services (CSN), and SAP's own OData server,
 * which serves them. Both are npm packages; the descriptions stand under SAP's developer licence. So they are installed
 * when the tests need them, into `node_modules/.cache`, and are neither a dependency nor copied into the repository. If
 * they cannot be had, the result says why, and the tests are skipped.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { errorText } from '#platform/errors.ts';
import { programCache } from '../harness/debian-packages.ts';
import { readOperations } from './client-operations.ts';
import { buildModel, descriptions } from './stub-model.ts';

const run = promisify(execFile);

export interface SapStub {
  /** The folder of the server's project: its packages, and the model made of SAP's descriptions. */
  readonly folder: string;
}

/** The stub cannot be made, for this reason. */
export interface NoSapStub {
  readonly missing: string;
}

const project = {
  name: 'sap-stub',
  private: true,
  dependencies: {
    '@sap/cds': '10.1.1',
    '@cap-js/sqlite': '3.1.1',
    '@cap-js-community/odata-v2-adapter': '1.15.10',
    express: '5.3.0',
    ...Object.fromEntries(descriptions.map((name) => [`@sap/cloud-sdk-vdm-${name}-service`, '2.1.0'])),
  },
  cds: {
    cov2ap: { path: 'sap/opu/odata/sap', targetPath: 'odata/v4' },
    requires: { db: { kind: 'sqlite', credentials: { url: ':memory:' } }, auth: { kind: 'dummy' } },
    log: { levels: { cds: 'warn', cov2ap: 'error' } },
    server: { body_parser: { limit: '64mb' } },
  },
};
/** Writes the description of each service, as `$metadata` shows it: SAP's server cannot show it in version 2. */
const describeServices = `
const { writeFileSync } = require('node:fs');
const cds = require('@sap/cds');
cds.load('srv/model.csn').then((model) => {
  for (const [service, { kind }] of Object.entries(model.definitions))
    if (kind === 'service')
      writeFileSync('metadata/' + service + '.xml', String(cds.compile.to.edmx(model, { service, version: 'v2' })));
});`;
/** A change of the model gets a folder of its own. */
const modelVersion = 8;

let found: Promise<SapStub | NoSapStub> | undefined;

/**
 * Finds or installs the packages, once per process. The first time it takes half a minute and a connection to the npm
 * registry. With CI=true or REQUIRE_SAP=1 it rejects if they cannot be had.
 */
export async function installSapStub(): Promise<SapStub | NoSapStub> {
  found ??= findOrInstall();
  const stub = await found;
  const isRequired = process.env['CI'] === 'true' || process.env['REQUIRE_SAP'] === '1';
  if ('missing' in stub && isRequired) throw new Error(`The tests need the stub of SAP S/4HANA: ${stub.missing}`);
  return stub;
}

async function findOrInstall(): Promise<SapStub | NoSapStub> {
  const hash = createHash('sha256')
    .update(JSON.stringify([project, modelVersion, process.arch]))
    .digest('hex');
  const folder = join(process.env['SAP_STUB_CACHE'] ?? join(programCache, 'sap'), hash.slice(0, 12));
  // The model is written last, and the folder is named last.
  const isComplete = () => existsSync(join(folder, 'srv/model.csn'));
  if (isComplete()) return { folder };
  try {
    await mkdir(dirname(folder), { recursive: true });
    const work = await mkdtemp(join(dirname(folder), 'unfinished-'));
    try {
      await writeFile(join(work, 'package.json'), JSON.stringify(project));
      await run(
        'npm',
        ['install', '--prefix', work, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'],
        {
          cwd: work,
          env: environment(),
          timeout: 300_000,
        },
      );
      await mkdir(join(work, 'srv'));
      await mkdir(join(work, 'metadata'));
      await writeFile(join(work, 'metadata/operations.json'), JSON.stringify(await readOperations(work)));
      await writeFile(join(work, 'srv/model.csn'), JSON.stringify(await buildModel(work)));
      await run(process.execPath, ['-e', describeServices], { cwd: work });
      await rename(work, folder).catch((error: unknown) => {
        // Another process was quicker.
        if (!isComplete()) throw error;
      });
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  } catch (error) {
    return { missing: `its npm packages cannot be installed: ${errorText(error).slice(0, 500)}` };
  }
  return { folder };
}

/** Without what the npm that runs the tests has set for its own project. */
function environment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^npm_(package_|lifecycle_|config_local_prefix$|command$)/.test(name),
    ),
  );
}
