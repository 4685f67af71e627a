/** The control socket of a whole relay: who may open it, when it is there, and what it does with what is no request. */
import { once } from 'node:events';
import { chmodSync, existsSync, statSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ControlClient } from '../../src/cli/relay/control-client.ts';
import { controlSocketPath } from '../../src/relay/operator/socket.ts';
import { SOCKET_PATH_BYTES_MAX } from '../../src/lib/unix-socket.ts';
import { STOP_WITHIN_MS } from '../../src/relay/relay.ts';
import { StoreFailed } from '../../src/relay/engine/committer.ts';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { deferred } from '../support/deferred.ts';
import { HttpRelay, relayForTest } from '../support/http-relay.ts';
import { alice } from '../support/hosts.ts';
import { requestBytes } from '../support/raw-http.ts';
import { settled } from '../support/settled.ts';
import { leaveSocket } from '../support/stale-socket.ts';
import { disposableFolder, temporaryFolder } from '../support/temporary-folder.ts';

const started = (): Promise<HttpRelay> => relayForTest(FIRST_ADAPTER);

describe('who may open it', () => {
  test('its owner and nobody else, under whatever umask, and the umask is as it was', async () => {
    const { folder, remove } = await disposableFolder();
    const before = process.umask(0);
    try {
      chmodSync(folder, 0o777);
      const relay = new HttpRelay(folder, FIRST_ADAPTER, {});
      await relay.start();
      const stats = statSync(controlSocketPath(folder));
      expect([stats.isSocket(), stats.mode & 0o777]).toEqual([true, 0o600]);
      expect(process.umask()).toBe(0);
      await relay.stop();
    } finally {
      process.umask(before);
      await remove();
    }
  });

  test('the public listener knows none of its routes', async () => {
    const relay = await started();
    for (const path of ['/v1/hosts', '/v1/hosts/find', '/v1/hosts/revoke', '/v1/invites']) {
      expect((await fetch(relay.url + path)).status).toBe(404);
      expect((await fetch(relay.url + path, { method: 'POST', body: '{}' })).status).toBe(404);
    }
  });

  test('it knows none of the public routes', async () => {
    const relay = await started();
    await expect(new ControlClient(relay.folder).get('/v2/relay/info')).rejects.toMatchObject({
      code: 'UNKNOWN_TO_RELAY',
    });
  });
});

describe('when it is there', () => {
  test('from the start to the stop of the relay', async () => {
    const relay = await started();
    const path = controlSocketPath(relay.folder);
    expect(existsSync(path)).toBe(true);
    await relay.stop();
    expect(existsSync(path)).toBe(false);
    await relay.start();
    expect(await new ControlClient(relay.folder).list('/v1/hosts')).toEqual([]);
  });

  test('one that a killed relay left is replaced', async () => {
    const relay = await started();
    const path = controlSocketPath(relay.folder);
    await relay.stop();
    await leaveSocket(path);
    await relay.start();
    expect(relay.relay.notices).toEqual([]);
    expect(await new ControlClient(relay.folder).list('/v1/hosts')).toEqual([]);
  });

  test('a second relay on the store, which is refused, leaves it alone', async () => {
    const relay = await started();
    await expect(new HttpRelay(relay.folder, FIRST_ADAPTER, {}).start()).rejects.toMatchObject({ reason: 'locked' });
    expect(await new ControlClient(relay.folder).list('/v1/hosts')).toEqual([]);
  });

  test('a relay that cannot listen elsewhere leaves none behind', async () => {
    const taken = await started();
    const folder = await temporaryFolder();
    const listen = { host: '127.0.0.1', port: taken.port };
    await expect(new HttpRelay(folder, FIRST_ADAPTER, { listen }).start()).rejects.toThrow('cannot be listened on');
    await expect(new HttpRelay(folder, FIRST_ADAPTER, { adminListen: listen }).start()).rejects.toThrow('cannot be');
    expect(existsSync(controlSocketPath(folder))).toBe(false);
  });
});

describe('where it cannot be made, mail goes on and a notice says why', () => {
  test('a path that is too long for a socket; a symbolic link is short enough', async () => {
    const parent = await temporaryFolder();
    const folder = join(parent, 'x'.repeat(SOCKET_PATH_BYTES_MAX));
    await mkdir(folder);
    const relay = new HttpRelay(folder, FIRST_ADAPTER, {});
    await relay.start();
    expect(relay.relay.notices).toEqual([
      expect.stringMatching(
        /^Local commands such as poste relay hosts cannot reach this relay: .* bytes .*symbolic link.*\.$/,
      ),
    ]);
    await relay.enrol(alice);
    await relay.stop();
    const link = join(parent, 'short');
    await symlink(folder, link);
    const again = new HttpRelay(link, FIRST_ADAPTER, {});
    await again.start();
    expect(again.relay.notices).toEqual([]);
    expect(await new ControlClient(link).list('/v1/hosts')).toMatchObject([{ host: 'alice' }]);
    await again.stop();
  });

  test('a file of its name, which is kept', async () => {
    const folder = await temporaryFolder();
    await writeFile(controlSocketPath(folder), 'mine');
    const relay = new HttpRelay(folder, FIRST_ADAPTER, {});
    await relay.start();
    expect(relay.relay.notices).toEqual([expect.stringContaining('is not a socket') as string]);
    await relay.enrol(alice);
    await relay.stop();
    expect(statSync(controlSocketPath(folder)).size).toBe(4);
  });
});

describe('what comes over it', () => {
  test.each<[string, string | Buffer, number[]]>([
    ['garbage', 'hello\r\n\r\n', [400]],
    ['bytes', Buffer.alloc(5000, 0xff), [400]],
    ['another path', requestBytes('GET', '/v1/host'), [404]],
    ['another method', requestBytes('DELETE', '/v1/hosts'), [405]],
    ['no body', requestBytes('POST', '/v1/invites', { 'content-length': '0' }), [400]],
    ['no JSON', requestBytes('POST', '/v1/invites', {}, '{'), [400]],
    ['JSON that costs a lot', requestBytes('POST', '/v1/invites', {}, '['.repeat(8000)), [400]],
    ['a body over 8 KiB', requestBytes('POST', '/v1/hosts/revoke', {}, 'x'.repeat(8193)), [413]],
    ['a body that is said to be huge', requestBytes('POST', '/v1/invites', { 'content-length': '9999999999' }), [413]],
    ['chunks', requestBytes('POST', '/v1/invites', { 'transfer-encoding': 'chunked' }, '0\r\n\r\n'), [411]],
    ['a head over 4 KiB', requestBytes('GET', '/v1/hosts', { x: 'y'.repeat(5000) }), [431]],
    ['a percent sign alone', requestBytes('GET', '/v1/hosts/find?host=%'), [400]],
  ])('%s is refused, and the relay serves on', async (_what, bytes, statuses) => {
    const relay = await started();
    expect(await statusesOf(relay, bytes)).toEqual(statuses);
    expect(await new ControlClient(relay.folder).list('/v1/hosts')).toEqual([]);
    expect(relay.errors).toEqual([]);
  });

  test('a client that leaves in the middle of its request harms nothing', async () => {
    const relay = await started();
    for (const bytes of [Buffer.alloc(0), requestBytes('POST', '/v1/invites', {}, '{"label":"x"}').subarray(0, -3)]) {
      const socket = connect(controlSocketPath(relay.folder));
      await once(socket, 'connect');
      socket.end(bytes);
      socket.resume();
      await once(socket, 'close');
    }
    expect(await new ControlClient(relay.folder).list('/v1/invites')).toEqual([]);
    expect(relay.errors).toEqual([]);
  });

  test('an unexpected error is 503, is logged, and ends nothing; a list that fails half way is none', async () => {
    const relay = await started();
    await relay.enrol(alice);
    const { engine } = relay.relay;
    const client = new ControlClient(relay.folder);
    engine.admissions.issueInvite = () => Promise.reject(new Error('a broken invariant'));
    await expect(client.post('/v1/invites', { label: '', lifetime_ms: 60_000 })).rejects.toMatchObject({
      exit: 'temporary',
      code: 'UNAVAILABLE',
    });
    const head = engine.head.bind(engine);
    engine.head = () => {
      throw new Error('another');
    };
    await expect(client.list('/v1/hosts')).rejects.toMatchObject({ code: 'RELAY_GONE' });
    expect(relay.errors).toHaveLength(2);
    engine.head = head;
    expect(await client.list('/v1/hosts')).toHaveLength(1);
  });

  test('of a store that failed nothing is said', async () => {
    const relay = await started();
    const { engine } = relay.relay;
    engine.durable = () => Promise.reject(new StoreFailed(new Error('no space')));
    await expect(new ControlClient(relay.folder).get('/v1/hosts/find?host=alice')).rejects.toMatchObject({
      exit: 'temporary',
      code: 'UNAVAILABLE',
    });
    expect(relay.errors).toEqual([]);
  });
});

describe('a stop', () => {
  test('finishes the command that is under way, and takes no other', async () => {
    const relay = await started();
    const { arrived, gate } = heldInvite(relay);
    const client = new ControlClient(relay.folder);
    const invite = client.post('/v1/invites', { label: 'last', lifetime_ms: 60_000 });
    await arrived.promise;
    const stopped = relay.stop();
    await expect(client.list('/v1/hosts')).rejects.toMatchObject({ code: 'RELAY_NOT_RUNNING' });
    expect(await settled({ stopped, invite })).toEqual([]);
    gate.resolve();
    expect(await invite).toMatchObject({ label: 'last' });
    await stopped;
  });

  test('does not wait for ever: what is under way then is cut, and its command says so', async () => {
    const relay = await started();
    const { arrived, gate } = heldInvite(relay);
    const invite = new ControlClient(relay.folder).post('/v1/invites', { label: '', lifetime_ms: 60_000 });
    const ended = invite.catch((error: unknown) => error);
    await arrived.promise;
    const stopped = relay.stop();
    relay.timers.pass(STOP_WITHIN_MS);
    expect(await ended).toMatchObject({ exit: 'temporary', code: 'RELAY_GONE' });
    await stopped;
    gate.resolve();
  });
});

/** The engine holds the next invite until the gate is opened. */
function heldInvite(relay: HttpRelay): { arrived: ReturnType<typeof deferred>; gate: ReturnType<typeof deferred> } {
  const [arrived, gate] = [deferred(), deferred()];
  const { engine } = relay.relay;
  const { admissions } = engine;
  const issue = admissions.issueInvite.bind(admissions);
  admissions.issueInvite = async (command) => {
    const issued = await issue(command);
    arrived.resolve();
    await gate.promise;
    return issued;
  };
  return { arrived, gate };
}

/** The statuses of every answer to `bytes`, until the relay closes or there was one. */
async function statusesOf(relay: HttpRelay, bytes: string | Buffer): Promise<number[]> {
  const socket = connect(controlSocketPath(relay.folder));
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
    // One request, one answer; whether more follow would show before the end that we ask for.
    if (!socket.writableEnded) socket.end();
  });
  // Bytes behind a refusal may meet a reset.
  socket.on('error', () => undefined);
  socket.write(bytes);
  await once(socket, 'close');
  return [...text.matchAll(/HTTP\/1\.1 ([0-9]{3})/g)].map(([, status]) => Number(status));
}
