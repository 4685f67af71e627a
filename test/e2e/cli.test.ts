/**
 * A relay as its operator meets it: real processes, their output and how they end. What its flags mean and what it
 * refuses is tested in process (unit/cli/relay/serve.test.ts).
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { freePort } from '../support/free-port.ts';
import { hopBytes } from '../support/hops.ts';
import { alice, bob } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { type RelayProcess, poste, relayProcess, run, serveArgs } from '../support/poste-process.ts';
import { RawConnection, rawRequest, requestBytes } from '../support/raw-http.ts';
import { EXIT, STACK, clientOf, sentenceOf, terminate } from '../support/relay-command.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

describe('relay serve', () => {
  test('a restart keeps the key, the epoch and the mail; so does a kill -9', async () => {
    const storeDir = await temporaryFolder();
    const first = await relayProcess(storeDir);
    await clientOf(first, alice).enrol();
    await clientOf(first, bob).enrol();
    await clientOf(first, alice).push([itemTo([bob], 'm1')]);
    await terminate(first);
    const second = await relayProcess(storeDir);
    const { relay_pubkey, epoch, fingerprint } = first.start;
    expect(second.start).toMatchObject({ relay_pubkey, epoch, fingerprint, initialised: false, notices: [] });
    await clientOf(second, alice).push([itemTo([bob], 'm2')]);
    await second.process.kill();
    const third = await relayProcess(storeDir);
    expect(third.start).toMatchObject({ relay_pubkey, epoch, notices: [] });
    const { items } = await clientOf(third, bob).pull({ epoch });
    expect(items.map(({ item_id }) => item_id)).toEqual(['m1', 'm2']);
  });

  test('a restart takes the same port again at once, with connections that were open', async () => {
    const storeDir = await temporaryFolder();
    const listen = ['--listen', `127.0.0.1:${await freePort()}`];
    for (const server of [FIRST_ADAPTER, 'node', FIRST_ADAPTER]) {
      const relay = await relayProcess(storeDir, [...listen, '--server', server]);
      expect(relay.start.server).toMatch(server === 'uws' ? /^uWebSockets/ : /^node:http/);
      const connection = await RawConnection.open(portOf(relay));
      expect((await connection.send(requestBytes('GET', '/v2/relay/info')).response())?.status).toBe(200);
      await (server === 'node' ? relay.process.kill() : terminate(relay));
      expect(await connection.untilClosed()).toEqual([]);
    }
  });

  test.skipIf(process.platform !== 'linux')(
    'nothing that it prints or logs can be written: it serves, and a signal ends it with 0',
    async () => {
      const home = await temporaryFolder();
      const port = await freePort();
      const under = ['/bin/sh', '-c', 'exec "$0" "$@" >/dev/full 2>/dev/full'];
      const args = serveArgs(home, ['--listen', `127.0.0.1:${port}`, '--log-level', 'info']);
      const relay = poste(args, {}, { under });
      await expect
        .poll(() =>
          rawRequest(port, requestBytes('GET', '/v2/relay/info')).then(
            ({ status }) => status,
            () => 0,
          ),
        )
        .toBe(200);
      relay.signal('SIGTERM');
      expect(await relay.ended()).toMatchObject({ code: 0, signal: null });
    },
  );

  test('SIGTERM and SIGINT end it with 0, within 25 s, also while a pull is held', async () => {
    for (const [signal, server] of [
      ['SIGTERM', FIRST_ADAPTER],
      ['SIGINT', 'node'],
    ] as const) {
      const relay = await relayProcess(await temporaryFolder(), ['--server', server]);
      await clientOf(relay, bob).enrol();
      const held = await sentHop(relay, 'GET', '/v2/relay/items?wait=30');
      const beganMs = performance.now();
      relay.process.signal(signal);
      expect(jsonOf(await held.response())).toMatchObject({ items: [], more: false });
      expect(await relay.process.ended()).toMatchObject({ code: EXIT.ok, signal: null, stderr: '' });
      expect(performance.now() - beganMs).toBeLessThan(25_000);
    }
  });

  test('SIGTERM the moment it says that it is ready ends it with 0 as well', async () => {
    const process = poste(serveArgs(await temporaryFolder()));
    await process.printed('Poste relay');
    process.signal('SIGTERM');
    expect(await process.ended()).toMatchObject({ code: EXIT.ok, signal: null });
  });

  test('a second signal ends it on the spot', async () => {
    const relay = await relayProcess(await temporaryFolder(), ['--log-level', 'info']);
    await clientOf(relay, bob).enrol();
    const unfinished = await sentHop(relay, 'POST', '/v2/relay/items', '{"items":[]}', -5);
    relay.process.signal('SIGTERM');
    await expect.poll(() => relay.process.stderr).toContain('stopping');
    relay.process.signal('SIGTERM');
    expect(await relay.process.ended()).toMatchObject({ code: EXIT.interrupted });
    expect(await unfinished.untilClosed()).toEqual([]);
  });
});

describe('a command as a process', () => {
  test('what cannot be is one sentence, an exit code and no stack trace', async () => {
    const storeDir = join(await temporaryFolder(), 'store');
    const usage = await run(serveArgs(storeDir, ['--lsten', '127.0.0.1:1']));
    expect(usage).toMatchObject({ code: EXIT.usage, signal: null, stdout: '' });
    expect(usage.stderr).toMatch(/unknown option '--lsten'\n\(Did you mean --listen\?\)/);
    expect(usage.stderr).not.toMatch(STACK);
    expect(existsSync(storeDir)).toBe(false);
  });

  test.skipIf(!existsSync('/proc/self/cmdline'))(
    'words that are no UTF-8 are refused, and U+FFFD is none of them',
    async () => {
      const message = ['send', '--as', 'a', '--to', 'b', '--body', 'x', '--subject'];
      const under = ['/bin/sh', '-c', 'exec "$0" "$@" "$(printf "J\\374rgen")"'];
      const environment = { POSTE_HOME: await temporaryFolder() };
      const refused = await poste(message, environment, { under }).ended();
      expect(sentenceOf(refused)).toContain('the command line holds bytes that are no UTF-8');
      expect(refused.code).toBe(EXIT.usage);
      expect(sentenceOf(await run([...message, 'J\uFFFDrgen'], environment))).toContain('no daemon is running');
    },
  );
});

describe.skipIf(!existsSync('/dev/full'))('on a disk that is full', () => {
  test.each(['--version', '--help', 'relay keygen', 'relay serve --print-config'])(
    '%s is one sentence and exit code 1',
    async (words) => {
      const ended = await poste(
        words.split(' '),
        {},
        { under: ['/bin/sh', '-c', 'exec "$0" "$@" >/dev/full'] },
      ).ended();
      expect(sentenceOf(ended)).toContain('standard output cannot be written (ENOSPC)');
      expect(ended.code).toBe(EXIT.failure);
    },
  );

  test('with --json it is one document, and what was done stays done', async () => {
    const environment = { POSTE_HOME: await temporaryFolder() };
    const under = ['/bin/sh', '-c', 'exec "$0" "$@" >/dev/full'];
    const ended = await poste(['init', '--host', 'here', '--json'], environment, { under }).ended();
    expect(JSON.parse(ended.stderr)).toMatchObject({ code: 'OUTPUT_FAILED' });
    expect(ended.code).toBe(EXIT.failure);
    expect(existsSync(join(environment.POSTE_HOME, 'store'))).toBe(true);
  });

  test('an error that standard error does not take is its exit code alone', async () => {
    const under = ['/bin/sh', '-c', 'exec "$0" "$@" 2>/dev/full'];
    expect(await poste(['nosuch'], {}, { under }).ended()).toMatchObject({ code: EXIT.usage, signal: null });
  });
});

function portOf({ start }: RelayProcess): number {
  return Number(new URL(start.url).port);
}

/** A hop of bob's, whole or up to `end`, that the relay has begun to handle. */
async function sentHop(
  relay: RelayProcess,
  method: string,
  target: string,
  body = '',
  end?: number,
): Promise<RawConnection> {
  const relayPubkey = relay.start.relay_pubkey as PublicKey;
  const hop = { host: bob, relayPubkey, method, target, body, timestamp: Date.now() };
  const connection = await RawConnection.open(portOf(relay));
  await connection.send(hopBytes(hop).subarray(0, end)).flushed();
  // What came on an earlier connection was read before later ones were answered.
  for (let count = 0; count < 2; count++) await rawRequest(portOf(relay), requestBytes('GET', '/v2/relay/info'));
  return connection;
}
