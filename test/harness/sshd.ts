/**
 * A real OpenSSH server for tests of SFTP: the system's, else the one of Debian's package, unpacked. It runs as an
 * ordinary process on a free port of this machine, with its own keys and settings, as the user of the tests. When root
 * runs the tests it runs as another user, because OpenSSH needs more of the system when root runs it.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash, generateKeyPairSync } from 'node:crypto';
import { access, chmod, chown, constants, mkdir, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import ssh2 from 'ssh2';
import { closeAtEnd } from './close-at-end.ts';
import { hashOfPackages, programCache, unpackDebianPackages, withLibraries } from './debian-packages.ts';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import { scratchFolder } from './scratch-folder.ts';

export interface SshServer {
  readonly port: number;
  readonly user: string;
  /** The file of the private key that the server accepts, and its passphrase. */
  readonly keyFile: string;
  readonly passphrase: string;
  /** The host key's fingerprint, in the form of the connector's setting. */
  readonly fingerprint: string;
  /** A line of a `known_hosts` file. */
  readonly knownHost: string;
  /** A folder that the server and the tests may write. */
  readonly folder: string;
  readonly version: string;
  /** The lines of its log. */
  readonly log: readonly string[];
  /** Ends all connections abruptly, as a cut cable would: it kills the processes that serve them. */
  cut(): Promise<void>;
  stop(): Promise<void>;
  start(): Promise<void>;
}

/** The server's user when root runs the tests. Not `nobody`, which may not log in on some systems. */
const otherUser = 'daemon';

const program = 'usr/sbin/sshd';
const packages = ['openssh-server', 'openssh-sftp-server'];

/** The folder that holds the program, as `/` does; rejects with the reason when there is none. Searched for once. */
let search: Promise<string> | undefined;
function findSshd(): Promise<string> {
  search ??= (async () => {
    if (await isThere(join('/', program))) return '/';
    const folder = join(programCache, 'sshd', await hashOfPackages(packages));
    const isUnpacked = () => isThere(join(folder, program));
    if (!(await isUnpacked())) await unpackDebianPackages(packages, folder, isUnpacked);
    return folder;
  })();
  return search;
}

/** Why no server can be started here; undefined when one can. */
export async function whyNoSshd(): Promise<string | undefined> {
  return findSshd().then(
    () => undefined,
    (error: Error) => `There is no sshd, and Debian's package could not be downloaded: ${error.message}`,
  );
}

/** Starts a server; `denied` names requests of the protocol that it refuses, such as `posix-rename`. */
export async function startSshd({ denied = [] }: { denied?: readonly string[] } = {}): Promise<SshServer> {
  const id = process.getuid?.() === 0 ? await idsOf(otherUser) : undefined;
  const home = await scratchFolder();
  const found = await findSshd();
  // Another user may not be allowed into the folders above this checkout, such as /root.
  const root = id && found !== '/' ? await copyProgram(found, join(home, 'openssh')) : found;
  const sshd = join(root, program);
  const env = withLibraries(root, process.env);
  const folder = join(home, 'files');
  const keyFile = join(home, 'login');
  const passphrase = 'correct horse 7/Q ü';
  const [host, login] = [makeKey(), makeKey(passphrase)];
  await mkdir(folder);
  await writeFile(join(home, 'host'), host.pem, { mode: 0o600 });
  await writeFile(join(home, 'authorized_keys'), `${login.type} ${login.publicKey.toString('base64')}\n`, {
    mode: 0o644,
  });
  await writeFile(keyFile, login.pem, { mode: 0o600 });
  const port = await freePort();
  // Its own umask, whatever the tests' is: files get the modes that the client asks for.
  const served = ['internal-sftp', '-u', '022', ...(denied.length > 0 ? ['-P', denied.join(',')] : [])].join(' ');
  const settings = [
    `Port ${port}`,
    'ListenAddress 127.0.0.1',
    `HostKey ${join(home, 'host')}`,
    `AuthorizedKeysFile ${join(home, 'authorized_keys')}`,
    'PidFile none',
    'UsePAM no',
    'StrictModes no',
    'MaxStartups 100:30:200',
    `Subsystem sftp ${served}`,
    `ForceCommand ${served}`,
    'LogLevel VERBOSE',
  ];
  const settingsFile = join(home, 'sshd_config');
  await writeFile(settingsFile, `${settings.join('\n')}\n`);
  if (id) {
    // The umask may have kept other users out.
    await chmod(home, 0o755);
    for (const file of [settingsFile, join(home, 'authorized_keys')]) await chmod(file, 0o644);
    for (const file of [home, folder, join(home, 'host')]) await chown(file, id.uid, id.gid);
  }
  const log: string[] = [];
  let child: ChildProcess | undefined;
  const stop = async () => {
    const running = child;
    child = undefined;
    if (!running || running.exitCode !== null) return;
    const ended = new Promise((resolve) => running.once('close', resolve));
    for (const served of await childrenOf(running)) kill(served);
    running.kill('SIGKILL');
    await ended;
  };
  const start = async () => {
    const linesBefore = log.length;
    const started = spawn(sshd, ['-D', '-e', '-f', settingsFile], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env,
      ...id,
    });
    child = started;
    started.stderr.setEncoding('utf8').on('data', (text: string) => log.push(...text.split('\n').filter(Boolean)));
    await eventually('sshd listens', async () => {
      if (started.exitCode !== null) throw new Error(`sshd has ended: ${log.slice(linesBefore).join(' ')}`);
      return log.slice(linesBefore).some((line) => line.includes('listening on'));
    });
  };
  closeAtEnd(stop);
  await start();
  const { stderr } = await promisify(execFile)(sshd, ['-V'], { env }).catch((error: { stderr: string }) => error);
  return {
    port,
    user: id ? otherUser : userInfo().username,
    keyFile,
    passphrase,
    fingerprint: `SHA256:${createHash('sha256').update(host.publicKey).digest('base64').replaceAll('=', '')}`,
    knownHost: `[127.0.0.1]:${port} ${host.type} ${host.publicKey.toString('base64')}`,
    folder,
    version: /OpenSSH_[^ ,]+/.exec(stderr)?.[0] ?? 'OpenSSH',
    log,
    cut: async () => {
      for (const served of child ? await childrenOf(child) : []) kill(served);
    },
    stop,
    start,
  };
}

/** Copies the unpacked program and its libraries into `folder`, for every user; returns the folder. */
async function copyProgram(root: string, folder: string): Promise<string> {
  await mkdir(folder);
  await promisify(execFile)('cp', ['-r', join(root, 'usr'), folder]);
  await promisify(execFile)('chmod', ['-R', 'a+rX', folder]);
  return folder;
}

/** Makes a key in a form that both OpenSSH and the library read; encrypted if there is a passphrase. */
function makeKey(passphrase?: string): { pem: string; type: string; publicKey: Buffer } {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const cipher = passphrase === undefined ? {} : { cipher: 'aes-256-cbc', passphrase };
  const pem = privateKey.export({ type: 'sec1', format: 'pem', ...cipher });
  const key = ssh2.utils.parseKey(pem, passphrase);
  if (key instanceof Error) throw key;
  return { pem: String(pem), type: key.type, publicKey: key.getPublicSSH() };
}

/** The processes that serve connections, and their child processes. */
async function childrenOf({ pid }: ChildProcess): Promise<number[]> {
  const { stdout } = await promisify(execFile)('ps', ['-eo', 'pid=,ppid=']);
  const rows = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number));
  const below = (parent: number | undefined): number[] =>
    rows.flatMap(([child = 0, of]) => (of === parent ? [...below(child), child] : []));
  return below(pid);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process may have ended meanwhile.
  }
}

async function idsOf(user: string): Promise<{ uid: number; gid: number }> {
  const ask = async (what: string) => Number((await promisify(execFile)('id', [what, user])).stdout);
  return { uid: await ask('-u'), gid: await ask('-g') };
}

function isThere(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
