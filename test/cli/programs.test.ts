import { once } from 'node:events';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { signBody } from '#contract/signature.ts';
import { anyNetwork } from '#platform/network-guard.ts';
import { eventually } from '../harness/eventually.ts';
import { isRunning } from '../harness/is-running.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { testCertificates, testOutgoing } from '../harness/test-certificates.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { type CommandLine, runCommandLine, runHere, startCommandLine } from './command-line.ts';

const freePorts = {
  SOURCING__SERVICE__PORT: '0',
  SOURCING__BRIDGE__PORT: '0',
  SOURCING__BRIDGE__CONSOLE_PORT: '0',
};

/** Starts the command with its own database and data folder, on free ports. */
async function startOnServer(args: readonly string[], env: Record<string, string> = {}): Promise<CommandLine> {
  const { url } = await createTestDatabase();
  return startCommandLine([...args, '--data', join(await scratchFolder(), 'data')], {
    DATABASE_URL: url,
    ...freePorts,
    ...env,
  });
}

const urlIn = (line: string) => /https?:\/\/\S+?(?=\)|\s|$)/.exec(line)?.[0] ?? '';

async function statusOf(url: string): Promise<number> {
  return (await fetch(url)).status;
}

/** The lines of the log, parsed. */
function logLines(command: CommandLine): Record<string, unknown>[] {
  return command
    .stderr()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** The process of a data folder's embedded database; undefined when none runs. */
async function embeddedPid(dataDir: string): Promise<number | undefined> {
  const text = await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8').catch(() => undefined);
  const pid = Number(text?.split('\n')[0]);
  return text !== undefined && isRunning(pid) ? pid : undefined;
}

describe('service', () => {
  test('prints one line when it is ready, answers its probes, logs JSON to standard error, and ends with 0 on SIGTERM', async () => {
    const command = await startOnServer(['service', '--port', '0'], { LOG_LEVEL: 'trace' });
    const line = await command.line(/ready/);
    expect(line).toMatch(/^service ready http:\/\/127\.0\.0\.1:\d+$/);
    const url = urlIn(line);
    expect(await Promise.all(['/healthz', '/readyz', '/metrics'].map((path) => statusOf(url + path)))).toEqual([
      200, 200, 200,
    ]);
    expect(await (await fetch(`${url}/metrics`)).text()).toContain('process_cpu_seconds_total');
    const answer = await fetch(`${url}/nothing-here`, { headers: { 'x-request-id': 'from-the-test' } });
    expect(answer.headers.get('x-request-id')).toBe('from-the-test');
    const signalledMs = performance.now();
    command.signal('SIGTERM');
    expect(await command.ended).toBe(0);
    expect(performance.now() - signalledMs).toBeLessThan(10_000);
    expect(command.stdout()).toBe(`${line}\n`);
    const lines = logLines(command);
    expect(lines).toContainEqual(
      expect.objectContaining({ requestId: 'from-the-test', program: 'service', status: 404 }),
    );
    for (const logged of lines) expect(logged).toMatchObject({ level: expect.any(String) as string, name: 'service' });
    expect(lines.filter(({ msg }) => msg === 'ready')).toEqual([
      expect.objectContaining({
        level: 'info',
        url,
        storage: expect.stringContaining('PostgreSQL') as string,
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string,
      }),
    ]);
  });

  test('with a certificate speaks HTTPS and says so; a certificate that cannot be read stops the start', async () => {
    const folder = await scratchFolder();
    const [certificate, key] = [join(folder, 'service.crt'), join(folder, 'service.key')];
    await writeFile(certificate, testCertificates().certPem);
    await writeFile(key, testCertificates().keyPem);
    const tls = { SOURCING__SERVICE__TLS__CERT_FILE: certificate, SOURCING__SERVICE__TLS__KEY_FILE: key };
    const command = await startOnServer(['service', '--port', '0', '--host', 'localhost'], tls);
    const line = await command.line(/ready/);
    expect(line).toMatch(/^service ready https:\/\/localhost:\d+$/);
    const ask = (url: string) =>
      testOutgoing().fetch({
        url,
        method: 'GET',
        allowedNetworks: anyNetwork,
        timeoutMs: 5_000,
        responseBytesMax: 10_000,
      });
    expect((await ask(`${line.replace('service ready ', '')}/readyz`)).status).toBe(200);
    command.signal('SIGTERM');
    expect(await command.ended).toBe(0);
    const missing = await startOnServer(['service', '--port', '0'], {
      ...tls,
      SOURCING__SERVICE__TLS__KEY_FILE: '/nowhere.key',
    });
    expect(await missing.ended).toBe(2);
    expect(missing.stderr()).toContain('The file /nowhere.key (service.tls.key_file) cannot be read.');
  });

  test('whose port is taken says so and what to do in one sentence, exits with 2 and leaves nothing running', async () => {
    const other = await listenAnywhere();
    const { port } = other.address() as AddressInfo;
    const dataDir = join(await scratchFolder(), 'data');
    const command = startCommandLine(['service', '--port', String(port), '--data', dataDir], { LOG_LEVEL: 'fatal' });
    expect(await command.ended).toBe(2);
    expect(command.stdout()).toBe('');
    expect(command.stderr()).toBe(
      `Cannot listen on 127.0.0.1:${port}: the port is taken by another program; stop that program, or choose another port (service.port or --port, bridge.port, bridge.console_port; 0 takes a free one).\n`,
    );
    expect(await stat(join(dataDir, 'postgres'))).toBeDefined();
    await eventually('the embedded database has ended', async () => (await embeddedPid(dataDir)) === undefined);
  });

  test('that cannot make its data folder says so and exits with 2', async () => {
    const command = startCommandLine(['service', '--data', '/dev/null/data']);
    expect(await command.ended).toBe(2);
    expect(command.stderr()).toMatch(
      /^The data folder \/dev\/null\/data cannot be made \(.*\)\. Name another with --data/,
    );
  });
});

describe('simulate', () => {
  test("needs only the operator's token: it plays in a new organisation, and the same seed plays the same story", async () => {
    const { url: database } = await createTestDatabase();
    const dataDir = join(await scratchFolder(), 'data');
    const service = startCommandLine(['service', '--port', '0', '--data', dataDir], { DATABASE_URL: database });
    const url = urlIn(await service.line(/ready/));
    const args = ['simulate', '--base-url', url, '--events', '2', '--suppliers', '3', '--lots', '2', '--speed', '1000'];
    const token = (await readFile(join(dataDir, 'admin-token'), 'utf8')).trim();
    const first = await runHere([...args, '--seed', '3'], { DATA_DIR: dataDir });
    const again = await runHere([...args, '--seed', '3'], { DATA_DIR: '/nowhere', SOURCING_ADMIN_TOKEN: token });
    expect([first.code, again.code]).toEqual([0, 0]);
    expect(first.stdout.split('\n').length).toBeGreaterThan(3);
    expect(again.stdout).toBe(first.stdout);
    const organisation = (text: string) => /organisation, ([0-9a-f-]{36})\.\n$/.exec(text)?.[1];
    expect(organisation(first.stderr)).toBeDefined();
    expect(organisation(again.stderr)).not.toBe(organisation(first.stderr));
    expect(first.stderr).not.toContain(token);
  });
});

test('simulate sends the token of the data folder to no other machine', async () => {
  const dataDir = await scratchFolder();
  await writeFile(join(dataDir, 'admin-token'), 'the token of this machine');
  const { code, stderr } = await runCommandLine(['simulate', '--base-url', 'http://sourcing.invalid'], {
    DATA_DIR: dataDir,
  });
  expect([code, stderr]).toEqual([2, expect.stringContaining('Set SOURCING_API_KEY')]);
});

describe('bridge', () => {
  test('without a source is ready, answers its probes on the console’s port, warns, and ends with 0 on SIGTERM', async () => {
    const command = await startOnServer(['bridge']);
    const line = await command.line(/ready/);
    expect(line).toMatch(/^bridge ready https:\/\/localhost:\d+ \(console http:\/\/127\.0\.0\.1:\d+\)$/);
    const consoleUrl = /console (\S+)\)/.exec(line)?.[1] ?? '';
    for (const path of ['/healthz', '/readyz', '/metrics', '/login', '/status.json'])
      expect(await statusOf(consoleUrl + path)).toBe(200);
    expect(await statusOf(`${consoleUrl}/`)).toBe(401);
    command.signal('SIGTERM');
    expect(await command.ended).toBe(0);
    expect(command.stdout()).toBe(`${line}\n`);
    expect(logLines(command)).toContainEqual(
      expect.objectContaining({ level: 'warn', msg: expect.stringContaining('no source is configured') as string }),
    );
  });

  test('that only receives does not miss a flow; a key with white space around it counts without it, one that can be guessed is warned of, and none is shown', async () => {
    const sources =
      '[{name: main, base_url: "http://127.0.0.1:1", api_key: unused, signing_keys: ["fifteen-letters\\n"]}]';
    const folder = await scratchFolder();
    const [certificate, key] = [join(folder, 'bridge.crt'), join(folder, 'bridge.key')];
    await writeFile(certificate, testCertificates().certPem);
    await writeFile(key, testCertificates().keyPem);
    const command = await startOnServer(['bridge', '--role', 'receive'], {
      SOURCING__BRIDGE__SOURCES: sources,
      SOURCING__BRIDGE__TLS__CERT_FILE: certificate,
      SOURCING__BRIDGE__TLS__KEY_FILE: key,
    });
    const url = urlIn(await command.line(/ready/));
    const body = '{"trigger":"TEST","timestamp":"2030-01-01T00:00:00.000000Z","payload":{}}';
    const { status } = await testOutgoing().fetch({
      url: `${new URL(url).origin}/webhooks/main`,
      method: 'POST',
      headers: { 'X-Signature': signBody(body, 'fifteen-letters') },
      body,
      allowedNetworks: anyNetwork,
      timeoutMs: 10_000,
      responseBytesMax: 10_000,
    });
    expect(status).toBe(200);
    command.signal('SIGTERM');
    expect(await command.ended).toBe(0);
    const warnings = logLines(command).filter(({ level }) => level === 'warn');
    expect(warnings).toEqual(
      ['white space around it', 'fewer than 16 characters', 'stale'].map((text) =>
        expect.objectContaining({ source: 'main', msg: expect.stringContaining(text) as string }),
      ),
    );
    expect(command.stderr()).not.toContain('fifteen-letters');
  });
});

describe('start', () => {
  test('prints where everything is; commands find its source and its flow; and it ends with 0 on Ctrl-C while the simulator plays', async () => {
    const { url: database } = await createTestDatabase();
    const env = { DATABASE_URL: database, ...freePorts };
    const data = join(await scratchFolder(), 'data');
    const command = startCommandLine(['start', '--data', data], env);
    const url = urlIn(await command.line(/^sourcing-bridge ready/));
    await command.line(/ drafted: /);
    const shown = command.stdout();
    for (const name of ['Watch it', 'Documents', 'Sourcing service', 'Webhook endpoint', 'Data', 'Stop'])
      expect(shown).toMatch(new RegExp(`^ {2}${name} {2,}\\S`, 'm'));
    // A link that logs in is printed at a terminal, and not into a file that others read.
    const console = /Watch it +(\S+) +(.*)/.exec(shown);
    expect(console?.[1]).not.toContain('/login/');
    expect(console?.[2]).toMatch(/^a link that logs in: .* console link$/);
    expect(await statusOf(`${console?.[1]}/healthz`)).toBe(200);
    expect(await statusOf(`${url}/readyz`)).toBe(200);
    const run = await runCommandLine(['bridge', 'run', '--json', '--data', data], env);
    expect([run.code, JSON.parse(run.stdout)]).toMatchObject([
      0,
      {
        failedFeeds: [],
        status: { feeds: [1, 2, 3, 4].map(() => ({ source: 'local' })), flows: [{ flow: 'erp-inbox' }] },
      },
    ]);
    const pause = await runCommandLine(['bridge', 'pause', 'erp-inbox', '--data', data], env);
    expect([pause.code, pause.stdout]).toEqual([0, expect.stringContaining('erp-inbox is paused')]);
    command.signal('SIGINT');
    expect(await command.ended).toBe(0);
    expect(command.stdout()).toMatch(/\nStopping\. .*\n(.*\n)*Stopped\.\n$/);
    expect(command.stderr()).toBe('');
  });

  test('stops in order when the request comes while it is starting', async () => {
    const command = await startOnServer(['start']);
    await command.line(/^Starting/);
    command.signal('SIGTERM');
    expect(await command.ended).toBe(0);
    expect(command.stdout()).toMatch(/Stopped\.\n$/);
  });

  test('stops in order when its terminal closes', async () => {
    const command = await startOnServer(['start']);
    await command.line(/ drafted: /);
    command.hangUp();
    command.signal('SIGHUP');
    expect(await command.ended).toBe(0);
  });
});

test('service refuses a profile that it does not know', async () => {
  const { code, stderr } = await runHere(['service', '--profile', 'private']);
  expect([code, stderr]).toEqual([2, expect.stringContaining('Allowed choices are spec, public')]);
});

describe('demo', () => {
  test('exits with 1 and claims no result when it is stopped in the middle of the story', async () => {
    const command = await startOnServer(['demo', '--events', '500']);
    await command.line(/ published/);
    command.signal('SIGINT');
    expect(await command.ended).toBe(1);
    expect(command.stderr()).toContain('The demo was stopped before its end.');
    expect(command.stdout()).not.toContain('The connector holds');
  });

  test('the commands take its data folder, as that of start', async () => {
    const { url } = await createTestDatabase();
    const data = join(await scratchFolder(), 'data');
    const env = { DATABASE_URL: url, ...freePorts };
    const demo = startCommandLine(['demo', '--events', '1', '--suppliers', '2', '--lots', '1', '--data', data], env);
    expect(await demo.ended).toBe(0);
    const { stdout } = await runCommandLine(['bridge', 'status', '--data', data], env);
    expect(stdout).toMatch(/^local +awards +/m);
    expect(stdout).toMatch(/^erp-inbox +/m);
  });

  test('with --loop, what an ERP raised was ordered once, line by line, and it shows so', async () => {
    const command = await startOnServer(['demo', '--loop']);
    expect(await command.ended).toBe(0);
    // One requisition of three lines and one of two were not withdrawn; two suppliers share each line.
    expect(command.stdout()).toContain('10 purchase order lines name a requisition');
    expect(command.stdout()).toContain('The ERP and the service agree.');
  });
});

describe('a request that does not end', () => {
  /** Sends the head of a request and half its body. */
  async function holdRequest(url: string): Promise<void> {
    const { port } = new URL(url);
    const socket = connect(Number(port), '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    socket.write(
      'POST /admin/organisations HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef\r\n' +
        'Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n',
    );
    // The server answers 100-continue when the request has reached it.
    await once(socket, 'data');
  }

  const admin = { SOURCING_ADMIN_TOKEN: '0123456789abcdef0123456789abcdef' };

  test('is cut off after the grace time, and a Ctrl-C that comes twice, as through npm, counts once', async () => {
    const command = await startOnServer(['service'], admin);
    await holdRequest(urlIn(await command.line(/ready/)));
    const signalledMs = performance.now();
    command.signal('SIGINT');
    command.signal('SIGINT');
    command.signal('SIGTERM');
    expect(await command.ended).toBe(0);
    expect(performance.now() - signalledMs).toBeLessThan(10_000);
  });

  test('does not stop a second signal from ending the program at once', async () => {
    const command = await startOnServer(['service'], admin);
    await holdRequest(urlIn(await command.line(/ready/)));
    let ended = false;
    void command.ended.then(() => {
      ended = true;
    });
    await eventually('it has ended', async () => {
      command.signal('SIGTERM');
      return ended;
    });
    expect(await command.ended).toBe(1);
    expect(command.stderr()).toContain('Ended before everything was closed. Nothing is lost');
  });
});

async function listenAnywhere(): Promise<Server> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return server;
}
