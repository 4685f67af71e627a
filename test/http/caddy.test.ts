/**
 * The Caddyfile of scripts/deploy before a relay, over HTTP/2: what arrives, and how a body is refused that is too
 * large.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type ClientHttp2Session, connect } from 'node:http2';
import { join } from 'node:path';
import { type TestContext, expect, onTestFinished, test } from 'vitest';
import { BODY_BYTES_MAX } from '../../src/protocol/limits.ts';
import { deployFile } from '../support/deploy-files.ts';
import { freePort } from '../support/free-port.ts';
import { CADDY, neededProgram } from '../support/programs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { listeningPort } from '../support/listening-port.ts';

/** Stands where the relay would, and says how many bytes came, and with which content-length. */
async function countingRelay(): Promise<number> {
  const server = createServer((request, response) => {
    let bytes = 0;
    request.on('data', (chunk: Buffer) => (bytes += chunk.length));
    request.on('end', () => response.end(`${bytes} of ${request.headers['content-length']} by ${request.httpVersion}`));
  });
  return await listeningPort(server);
}

/**
 * Caddy with that file, but for the name, the certificate and the ports; without HTTP/3, which needs the port on UDP
 * too.
 */
async function caddy(context: TestContext): Promise<ClientHttp2Session> {
  const program = neededProgram(context, CADDY);
  const [folder, port, relayPort] = [await temporaryFolder(), await freePort(), await countingRelay()];
  const own =
    '{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n\tservers {\n\t\tprotocols h1 h2\n\t}\n}\n';
  const site = `https://localhost:${port} {\n\tbind 127.0.0.1\n\ttls internal`;
  const text = deployFile('Caddyfile').replace('mail.example {', `${own}${site}`);
  const config = join(folder, 'Caddyfile');
  await writeFile(config, text.replace('127.0.0.1:8787', `127.0.0.1:${relayPort}`));
  const child = spawn(program, ['run', '--config', config, '--adapter', 'caddyfile'], {
    env: { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
    stdio: 'ignore',
  });
  onTestFinished(async () => {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  });
  return connected(port);
}

/** A session, once Caddy has its certificate. */
async function connected(port: number): Promise<ClientHttp2Session> {
  let session: ClientHttp2Session | undefined;
  await expect
    .poll(
      () =>
        new Promise<boolean>((done) => {
          const tried = connect(`https://localhost:${port}`, { rejectUnauthorized: false });
          tried.once('error', () => done(false));
          tried.once('connect', () => {
            session = tried;
            done(true);
          });
        }),
      { timeout: 30_000 },
    )
    .toBe(true);
  if (!session) throw new Error('Caddy was not reached');
  const reached = session;
  onTestFinished(() => reached.destroy());
  return reached;
}

async function posted(session: ClientHttp2Session, bytes: number): Promise<{ status: unknown; text: string }> {
  const stream = session.request({ ':method': 'POST', ':path': '/v2/relay/items', 'content-length': bytes });
  stream.end(Buffer.alloc(bytes));
  let text = '';
  stream.setEncoding('utf8').on('data', (part: string) => (text += part));
  const [[headers]] = await Promise.all([once(stream, 'response'), once(stream, 'end')]);
  return { status: (headers as Record<string, unknown>)[':status'], text };
}

test('Caddy passes on the largest body, and 413 with a text to a larger, on one connection', async (context) => {
  const session = await caddy(context);
  const largest = await posted(session, BODY_BYTES_MAX);
  expect(largest).toEqual({ status: 200, text: `${BODY_BYTES_MAX} of ${BODY_BYTES_MAX} by 1.1` });
  const goneAway: unknown[] = [];
  session.on('goaway', (code) => goneAway.push(code));
  const larger = await posted(session, BODY_BYTES_MAX + 1);
  expect(larger.status).toBe(413);
  expect(larger.text).not.toBe('');
  expect(await posted(session, 10)).toEqual({ status: 200, text: '10 of 10 by 1.1' });
  expect(goneAway).toEqual([]);
});
