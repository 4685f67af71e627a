/** A relay that speaks TLS itself: what it serves with, and what happens when its certificate is replaced. */
import { writeFileSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { type TLSSocket, connect } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Exchange, HttpServer } from '../../src/http/exchange.ts';
import { listenNode } from '../../src/http/server-node.ts';
import { NotListening, type Tls, TlsRefused, keepTlsCurrent, readTls } from '../../src/http/tls-files.ts';
import { RelayClient } from '../../src/host/relay/relay-client.ts';
import { RelayCallFailed, callerTrusting } from '../../src/host/relay/relay-request.ts';
import { type UwsBinding, uwsHere } from '../../src/relay/http/uws-binding.ts';
import { listenUws } from '../../src/relay/http/uws-connection.ts';
import { alice, relay as relayHost } from '../support/hosts.ts';
import { ADAPTERS, type HttpRelay, relayForTest } from '../support/http-relay.ts';
import { ManualTimers } from '../support/manual-time.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { ANOTHER_AUTHORITY, AUTHORITY, SELF_SIGNED, SERVER } from '../support/test-authority.ts';

interface Pair {
  cert: string;
  key: string;
}

const INFO = 'GET /v2/relay/info HTTP/1.1\r\nhost: relay\r\n\r\n';

async function pairIn(folder: string, { cert, key }: Pair): Promise<{ certFile: string; keyFile: string }> {
  const files = { certFile: join(folder, 'relay.crt'), keyFile: join(folder, 'relay.tls-key') };
  writeFileSync(files.certFile, cert);
  writeFileSync(files.keyFile, key);
  return files;
}

function clientOf(relay: HttpRelay, pem: string): RelayClient {
  const options = { url: `https://127.0.0.1:${relay.port}`, signer: alice.signer, hostName: alice.name };
  const nowMs = (): number => relay.clock.nowMs();
  return new RelayClient({ ...options, nowMs, caller: callerTrusting({ pem }) }, relayHost.key);
}

async function handshake(relay: { port: number }): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port: relay.port, rejectUnauthorized: false });
  onTestFinished(() => void socket.destroy());
  await once(socket, 'secureConnect');
  return socket;
}

async function nameShown(relay: { port: number }): Promise<unknown> {
  const socket = await handshake(relay);
  const { CN: name } = socket.getPeerCertificate().subject;
  socket.destroy();
  return name;
}

async function answered(socket: TLSSocket): Promise<string> {
  socket.write(INFO);
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  return chunk.toString().split('\r\n')[0] ?? '';
}

describe.each(ADAPTERS)('%s', (adapter) => {
  async function servingTls(pair: Pair): Promise<{ relay: HttpRelay; folder: string }> {
    const folder = await temporaryFolder();
    return { relay: await relayForTest(adapter, { tls: await pairIn(folder, pair) }), folder };
  }

  test('serves hosts over TLS to those who trust its authority', async () => {
    const { relay } = await servingTls(SERVER);
    const client = clientOf(relay, AUTHORITY);
    await client.enrol();
    expect((await client.ownInfo()).you?.pubkey).toBe(alice.key);
    expect((await client.pull()).items).toEqual([]);
    await expect(clientOf(relay, ANOTHER_AUTHORITY).info()).rejects.toThrow(RelayCallFailed);
  });

  test('a certificate that signs itself is trusted by who has it, whatever its name', async () => {
    const { relay } = await servingTls(SELF_SIGNED);
    expect((await clientOf(relay, SELF_SIGNED.cert).info()).relay_pubkey).toBe(relayHost.key);
    // Of another authority the name counts.
    await expect(clientOf(relay, AUTHORITY).info()).rejects.toThrow(RelayCallFailed);
  });

  test('new connections get a certificate that replaces the first, and open ones go on', async () => {
    const { relay, folder } = await servingTls(SERVER);
    const open = await handshake(relay);
    expect(await answered(open)).toBe('HTTP/1.1 200 OK');
    await pairIn(folder, SELF_SIGNED);
    relay.timers.pass(30_000);
    await expect.poll(() => nameShown(relay)).toBe('poste');
    expect(await answered(open)).toBe('HTTP/1.1 200 OK');
    await pairIn(folder, SERVER);
    relay.timers.pass(30_000);
    await expect.poll(() => nameShown(relay)).toBe('Poste test relay');
  });

  test('a pair that does not fit changes nothing', async () => {
    const { relay, folder } = await servingTls(SERVER);
    writeFileSync(join(folder, 'relay.crt'), SELF_SIGNED.cert);
    relay.timers.pass(30_000);
    await expect.poll(() => relay.errors).toHaveLength(1);
    expect(relay.errors[0]?.message).toContain('stays');
    expect(await nameShown(relay)).toBe('Poste test relay');
    relay.logged.length = 0;
  });

  test('an exchange that is cut ends its connection', async () => {
    const tls = await readTls(await pairIn(await temporaryFolder(), SERVER));
    const binding = adapter === 'uws' ? uwsHere().binding : undefined;
    const listen = binding ? listenUws(binding) : listenNode;
    const thrown: unknown[] = [];
    const handler = (exchange: Exchange): void => {
      try {
        exchange.abort();
      } catch (error) {
        thrown.push(error);
        exchange.reply({ status: 500, headers: {}, body: '', close: true });
      }
    };
    const server = await listen({ host: '127.0.0.1', port: 0, handler, tls });
    onTestFinished(() => server.close());
    const socket = connect({ host: '127.0.0.1', port: server.port, rejectUnauthorized: false });
    onTestFinished(() => void socket.destroy());
    await once(socket, 'secureConnect');
    socket.on('error', () => undefined);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.resume();
    socket.write(INFO);
    await closed;
    expect(thrown).toEqual([]);
  });

  test('connections are counted from before their handshake on', async () => {
    const folder = await temporaryFolder();
    const tls = await pairIn(folder, SERVER);
    const relay = await relayForTest(adapter, { tls, connections: { max: 2, perAddressMax: 2 } });
    const silent = connectTcp(relay.port, '127.0.0.1');
    onTestFinished(() => void silent.destroy());
    await once(silent, 'connect');
    await handshake(relay);
    const ended = once(silent, 'close');
    const last = await handshake(relay);
    await ended;
    expect(await answered(last)).toBe('HTTP/1.1 200 OK');
  });
});

/** A server of uWebSockets.js whose next attempts to listen fail, as many as `failing` says. */
async function deafServer({ uws, version }: UwsBinding, tls: Tls): Promise<{ server: HttpServer; failing: number }> {
  const deaf = { failing: 0 };
  const SSLApp: typeof uws.SSLApp = (options) => {
    const app = uws.SSLApp(options);
    const listen = app.listen.bind(app) as (...given: unknown[]) => unknown;
    return Object.assign(app, {
      listen: (...given: [string, number, number, (found: false) => void]) => {
        if (deaf.failing === 0) return listen(...given);
        deaf.failing--;
        given[3](false);
        return app;
      },
    });
  };
  const listen = listenUws({ uws: { ...uws, SSLApp }, version });
  const server = await listen({ host: '127.0.0.1', port: 0, handler: (exchange) => exchange.abort(), tls });
  onTestFinished(() => server.close());
  return Object.assign(deaf, { server });
}

describe('a port that cannot be listened on again with a new certificate', () => {
  test('the one before is listened on; when that fails too, the caller is told and may try again', async (context) => {
    const { binding } = uwsHere();
    if (!binding) return context.skip();
    const folder = await temporaryFolder();
    const deaf = await deafServer(binding, await readTls(await pairIn(folder, SERVER)));
    const { server } = deaf;
    const renewed = await readTls(await pairIn(folder, SELF_SIGNED));
    deaf.failing = 1;
    const told = ((): unknown => {
      try {
        server.renewTls(renewed);
        return undefined;
      } catch (error) {
        return error;
      }
    })();
    expect(told).toBeInstanceOf(Error);
    expect(told).not.toBeInstanceOf(NotListening);
    expect(await nameShown(server)).toBe('Poste test relay');
    deaf.failing = 2;
    expect(() => server.renewTls(renewed)).toThrow(NotListening);
    await expect(handshake(server)).rejects.toThrow('ECONNREFUSED');
    server.renewTls(renewed);
    expect(await nameShown(server)).toBe('poste');
  });

  test('is tried again with each look, also with the certificate of before, and logged each time', async () => {
    const folder = await temporaryFolder();
    const tls = await readTls(await pairIn(folder, SERVER));
    const timers = new ManualTimers();
    const said: string[] = [];
    const given: string[] = [];
    let isDeaf = true;
    const log = {
      info: (_fields: object, message: string) => void said.push(message),
      error: (_fields: object, message: string) => void said.push(message),
    };
    const renew = ({ cert }: Tls): void => {
      given.push(cert.equals(tls.cert) ? 'before' : 'new');
      if (isDeaf) throw new NotListening('cannot be listened on again');
    };
    const task = keepTlsCurrent({ tls, timers, renew, log });
    onTestFinished(() => task.stop());
    const look = async (): Promise<void> => {
      const before = given.length;
      timers.pass(30_000);
      await expect.poll(() => given.length).toBe(before + 1);
      await expect.poll(() => said.length).toBe(given.length);
    };
    await pairIn(folder, SELF_SIGNED);
    await look();
    await pairIn(folder, SERVER);
    await look();
    isDeaf = false;
    await look();
    expect(given).toEqual(['new', 'before', 'before']);
    const deaf = 'no new connection is taken: the listener is tried again in half a minute';
    expect(said).toEqual([deaf, deaf, 'new connections get the new certificate']);
  });
});

test('a pair that cannot be used is told once, and again after another one or one that can be used', async () => {
  const folder = await temporaryFolder();
  const tls = await readTls(await pairIn(folder, SERVER));
  const timers = new ManualTimers();
  const said: string[] = [];
  const log = {
    info: (_fields: object, message: string) => void said.push(message),
    error: (fields: object) => void said.push((fields as { err: Error }).err.message),
  };
  const given: string[] = [];
  const renew = ({ cert }: Tls): void => void given.push(cert.toString());
  const task = keepTlsCurrent({ tls, timers, renew, log });
  onTestFinished(() => task.stop());
  const looksAt = async (pair: Pair): Promise<void> => {
    await pairIn(folder, pair);
    timers.pass(30_000);
    await task.idle;
  };
  const [foreign, without] = [
    { cert: SELF_SIGNED.cert, key: SERVER.key },
    { cert: SERVER.cert, key: '' },
  ];
  const sequence = [foreign, foreign, foreign, without, without, SELF_SIGNED, SELF_SIGNED, foreign, foreign];
  for (const pair of sequence) await looksAt(pair);
  expect(said).toEqual([
    expect.stringContaining('is not that of the certificate'),
    expect.stringContaining('holds no private key'),
    'new connections get the new certificate',
    expect.stringContaining('is not that of the certificate'),
  ]);
  expect(given).toEqual([SELF_SIGNED.cert]);
  // After its end nothing is looked at.
  await task.stop();
  await looksAt(SERVER);
  expect(given).toHaveLength(1);
});

test.each([
  ['no key', { cert: SERVER.cert, key: '' }, 'holds no private key'],
  ['no certificate', { cert: 'text', key: SERVER.key }, 'holds no certificate'],
  ['the key of another', { cert: SERVER.cert, key: SELF_SIGNED.key }, 'is not that of the certificate'],
])('a pair with %s is refused', async (_what, pair, sentence) => {
  const files = await pairIn(await temporaryFolder(), pair);
  await expect(readTls(files)).rejects.toThrow(TlsRefused);
  await expect(readTls(files)).rejects.toThrow(sentence);
});

test('a file that is not there is named', async () => {
  const { certFile, keyFile } = await pairIn(await temporaryFolder(), SERVER);
  await expect(readTls({ certFile: `${certFile}.old`, keyFile })).rejects.toThrow('cannot be read (it is not there)');
});
