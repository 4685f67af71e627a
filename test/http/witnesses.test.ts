/** A relay and its witnesses: what is cosigned and when, and what a relay does when a witness knows more than it. */
import { cp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { ControlClient } from '../../src/cli/relay/control-client.ts';
import { openCheckpoint, plainNote } from '../../src/protocol/checkpoint.ts';
import { openCosignature, parseAddCheckpoint } from '../../src/protocol/cosignature.ts';
import { hostFingerprint } from '../../src/protocol/public-key.ts';
import { WITNESS_ROUND_MS } from '../../src/relay/jobs/witnesses.ts';
import { HttpRelay, type HttpRelayChanges, relayForTest } from '../support/http-relay.ts';
import { alice, bob, carol, dave, relay as relayHost } from '../support/hosts.ts';
import { type RunningWitness, witnessOf } from '../support/running-witness.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { atTestEnd } from '../support/test-end.ts';

const DAY_MS = 86_400_000;
const HALF_HOUR_MS = 30 * 60_000;

/** A witness of other software, or one that lies: it answers as the test says. */
async function scripted(answer: (request: IncomingMessage, response: ServerResponse, body: string) => void) {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => answer(request, response, Buffer.concat(chunks).toString()));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  atTestEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, key: { name: 'scripted.example', publicKey: alice.key } };
}

/** As `checkpoint?cosigned=1` answers it. */
const cosigned = (relay: HttpRelay): string => relay.relay.engine.log.cosigned ?? '';

const sizeOf = (note: string): number => openCheckpoint(note, relayHost.key)?.size ?? 0;

/** The time of a cosignature in the newest cosigned note, in milliseconds; 0 without one. */
function timeAt(relay: HttpRelay, { settings }: RunningWitness): number {
  return (openCosignature(cosigned(relay), settings.key)?.timeS ?? 0) * 1000;
}

const noted = (relay: HttpRelay): string[] =>
  relay.logged.filter(({ message }) => message.includes('witness')).map(({ message }) => message);

/** Resolves when a round that asks nobody is over. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 10; turns++) await turn();
}

const nextRound = (relay: HttpRelay): void => relay.timers.pass(WITNESS_ROUND_MS);

/** The relay with its store put back to how it was before `work`, with the position beside it, as a file copy does. */
async function putBack(relay: HttpRelay, work: () => Promise<void>, started: HttpRelayChanges = {}): Promise<void> {
  await relay.stop();
  const copy = `${await temporaryFolder()}/copy`;
  await cp(relay.folder, copy, { recursive: true });
  await relay.start();
  await work();
  await relay.stop();
  await rm(relay.folder, { recursive: true });
  await cp(copy, relay.folder, { recursive: true });
  await relay.start(started);
}

describe('a relay with a witness', () => {
  test('has a cosigned checkpoint when it begins to serve, and 404 without a witness', async () => {
    const witness = await witnessOf(alice);
    const relay = await relayForTest('node', { witnesses: [witness.settings] });
    const asked = await fetch(`${relay.url}/v2/relay/log/checkpoint?cosigned=1`);
    const note = await asked.text();
    expect(note).toBe(cosigned(relay));
    expect(openCosignature(note, witness.settings.key)?.timeS).toBe(NOON_MS / 1000);
    expect(plainNote(note, relayHost.key)?.note).toBe(relay.relay.engine.log.checkpoint());
    const without = await relayForTest('node');
    const answer = await fetch(`${without.url}/v2/relay/log/checkpoint?cosigned=1`);
    expect(answer.status).toBe(404);
    const both = await fetch(`${relay.url}/v2/relay/log/checkpoint?cosigned=1&size=1`);
    expect(both.status).toBe(400);
  });

  test('asks again each minute when the log has grown, and each half hour when it has not', async () => {
    const witness = await witnessOf(alice);
    const relay = await relayForTest('node', { witnesses: [witness.settings] });
    const first = sizeOf(cosigned(relay));
    await relay.enrol(bob);
    nextRound(relay);
    await expect.poll(() => sizeOf(cosigned(relay))).toBeGreaterThan(first);
    const passed = async (ms: number): Promise<void> => {
      relay.clock.move(ms);
      witness.clock.move(ms);
      await settled();
      nextRound(relay);
    };
    await passed(HALF_HOUR_MS - 1000);
    await settled();
    expect(timeAt(relay, witness)).toBe(NOON_MS);
    await passed(1000);
    await expect.poll(() => timeAt(relay, witness)).toBe(NOON_MS + HALF_HOUR_MS);
  });

  test('says how old the newest cosignature of each is: in its metrics, and to its doctor', async () => {
    const witness = await witnessOf(alice);
    const refusing = await scripted((_request, response) => response.writeHead(500).end());
    const adminListen = { host: '127.0.0.1', port: 0 };
    const relay = await relayForTest('node', { witnesses: [witness.settings, refusing], adminListen });
    relay.clock.move(90_000);
    const metrics = await (await fetch(`http://127.0.0.1:${relay.relay.adminPort}/metrics`)).text();
    expect(metrics).toContain('\nposte_relay_witness_cosignature_age_seconds{witness="alice.example"} 90\n');
    expect(metrics).toContain('\nposte_relay_witness_cosignature_age_seconds{witness="scripted.example"} 90\n');
    expect((await new ControlClient(relay.folder).get('/v1/status')).witnesses).toEqual([
      { name: 'alice.example', cosigned_ms_ago: 90_000, fault: null },
      { name: 'scripted.example', cosigned_ms_ago: null, fault: 'it answers 500 to a checkpoint' },
    ]);
  });

  test('has one note with the cosignatures of all, also when strangers showed one of them a newer one', async () => {
    const witnesses = [await witnessOf(alice), await witnessOf(bob)];
    const relay = await relayForTest('node', { witnesses: witnesses.map(({ settings }) => settings) });
    await relay.enrol(carol);
    const log = relay.relay.engine.log;
    const old = sizeOf(cosigned(relay));
    const note = log.checkpoint() ?? '';
    const growth = log.growth(old, sizeOf(note));
    const proof = typeof growth === 'object' ? growth.proof.map((hash) => `${hash.toString('base64')}\n`) : [];
    const shown = await witnesses[0]!.witness.addCheckpoint(`old ${old}\n${proof.join('')}\n${note}`);
    expect(shown.type).toBe('cosigned');
    nextRound(relay);
    await expect.poll(() => sizeOf(cosigned(relay))).toBe(sizeOf(note));
    for (const witness of witnesses) await expect.poll(() => timeAt(relay, witness)).toBe(NOON_MS);
    expect(relay.errors).toEqual([]);
  });

  test('opens its next epoch at the witness, which never cosigns the one before again', async () => {
    const witness = await witnessOf(alice);
    const relay = await relayForTest('node', { witnesses: [witness.settings] });
    const { engine } = relay.relay;
    const [before, first] = [engine.log.checkpoint() ?? '', engine.epoch];
    const epoch = '0'.repeat(26) as typeof first;
    await engine.rotateEpoch({ type: 'RotateEpoch', epoch, reason: 'restore', nowMs: relay.clock.nowMs() });
    nextRound(relay);
    await expect.poll(() => openCheckpoint(cosigned(relay), relayHost.key)?.epoch).toBe(epoch);
    const { epochs = [] } = witness.witness.epochs(hostFingerprint(relayHost.key)) ?? {};
    expect(epochs.map((one) => one.epoch)).toEqual([first, epoch]);
    expect(await witness.witness.addCheckpoint(`old ${sizeOf(before)}\n\n${before}`)).toMatchObject({
      type: 'not open',
    });
  });

  test('that was put back to a copy begins an epoch before it serves', async () => {
    const witness = await witnessOf(alice);
    const relay = await relayForTest('node', { witnesses: [witness.settings] });
    const { epoch } = relay;
    await putBack(relay, async () => {
      await relay.enrol(bob, carol);
      nextRound(relay);
      await expect.poll(() => sizeOf(cosigned(relay))).toBeGreaterThan(4);
    });
    expect(relay.epoch).not.toBe(epoch);
    expect(openCheckpoint(cosigned(relay), relayHost.key)?.epoch).toBe(relay.epoch);
  });

  test('that was put back and has outgrown what was cosigned begins an epoch too', async () => {
    const { settings } = await witnessOf(alice);
    const relay = await relayForTest('node', { witnesses: [settings] });
    const { epoch } = relay;
    let known = 0;
    const work = async (): Promise<void> => {
      await relay.enrol(bob);
      nextRound(relay);
      await expect.poll(() => (known = sizeOf(cosigned(relay)))).toBeGreaterThan(2);
    };
    await putBack(relay, work, { witnesses: [] });
    await relay.enrol(carol, dave);
    expect(sizeOf(relay.relay.engine.log.checkpoint() ?? '')).toBeGreaterThan(known);
    expect(relay.epoch).toBe(epoch);
    await relay.restart();
    expect(relay.epoch).not.toBe(epoch);
  });

  test('begins to serve although a witness gives no answer, after five seconds', async () => {
    const silent = await scripted(() => undefined);
    const relay = new HttpRelay(await temporaryFolder(), 'node', { witnesses: [silent] });
    let passedMs = 0;
    const passing = setInterval(() => {
      relay.timers.pass(500);
      passedMs += 500;
    }, 20);
    await relay.start().finally(() => clearInterval(passing));
    atTestEnd(() => relay.stopAtOnce());
    expect(passedMs).toBeGreaterThanOrEqual(5_000);
  });

  test('says once that a witness is away, and when it is back', async () => {
    let isAway = true;
    const witness = await witnessOf(alice);
    const proxy = await scripted((request, response, body) => {
      if (isAway) response.writeHead(503).end();
      else
        void fetch(`${witness.settings.url.replace(/\/$/, '')}${request.url}`, {
          method: request.method ?? 'GET',
          ...(body !== '' && { body }),
        }).then(async (answer) => response.writeHead(answer.status).end(await answer.text()));
    });
    const relay = await relayForTest('node', { witnesses: [{ ...witness.settings, url: proxy.url }] });
    nextRound(relay);
    await expect.poll(() => noted(relay)).toEqual(['a witness does not cosign: it answers 503 to a checkpoint']);
    isAway = false;
    nextRound(relay);
    await expect.poll(() => noted(relay)[1]).toBe('a witness cosigns again');
  });

  test('of other software, which does not know the origin, says so once', async () => {
    const witness = await scripted((_request, response) => response.writeHead(404).end('unknown\n'));
    const relay = await relayForTest('node', { witnesses: [witness] });
    nextRound(relay);
    await expect.poll(() => noted(relay)).toEqual([expect.stringContaining('ask its operator to add this origin')]);
  });

  test('takes no cosignature that does not verify', async () => {
    const witness = await scripted((_request, response) => response.writeHead(200).end('\u2014 x AAAA\n'));
    const relay = await relayForTest('node', { witnesses: [witness] });
    expect(noted(relay)).toEqual(['a witness does not cosign: what it answers is no cosignature by its key']);
  });
});

describe('the bare word of a witness', () => {
  test('is believed once a day, over restarts too, and else told to the operator', async () => {
    const liar = await scripted((request, response, body) => {
      if (request.method === 'GET') response.writeHead(404).end();
      else response.writeHead(409).end(`${sizeOf(parseAddCheckpoint(body)?.note ?? '') + 100}\n`);
    });
    const relay = await relayForTest('node');
    const epochs = [relay.epoch];
    const restarted = async (byMs: number): Promise<void> => {
      relay.clock.move(byMs);
      await relay.restart({ witnesses: [liar] });
      epochs.push(relay.epoch);
    };
    await restarted(1000);
    await restarted(1000);
    expect(new Set(epochs).size).toBe(2);
    expect(noted(relay).join('\n')).toContain('shows no note that proves it');
    relay.clock.move(DAY_MS);
    nextRound(relay);
    await expect.poll(() => epochs.includes(relay.epoch)).toBe(false);
  });

  test('makes no epoch with a note of this relay that is a head of its log', async () => {
    let note = '';
    const liar = await scripted((request, response) => {
      if (request.method === 'GET')
        response.writeHead(200).end(JSON.stringify({ epochs: [{ epoch: note.slice(71, 97), checkpoint: note }] }));
      else response.writeHead(422).end();
    });
    const relay = await relayForTest('node');
    const { epoch } = relay;
    note = relay.relay.engine.log.checkpoint() ?? '';
    await relay.restart({ witnesses: [liar] });
    expect(relay.epoch).toBe(epoch);
    expect(noted(relay)[0]).toContain('it cosigns no head of this log');
  });

  test('with a note of this relay that its log contradicts is believed at once', async () => {
    const relay = await relayForTest('node');
    const { epoch } = relay;
    let note = '';
    const witness = await scripted((request, response) => {
      if (request.method === 'GET')
        response.writeHead(200).end(JSON.stringify({ epochs: [{ epoch: 'any', checkpoint: note }] }));
      else response.writeHead(409).end(`${sizeOf(note)}\n`);
    });
    await putBack(relay, async () => {
      await relay.enrol(bob, carol, dave);
      note = relay.relay.engine.log.checkpoint() ?? '';
    });
    expect(relay.epoch).toBe(epoch);
    await relay.restart({ witnesses: [witness] });
    expect(relay.epoch).not.toBe(epoch);
  });
});
