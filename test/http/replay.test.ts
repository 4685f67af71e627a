/** Hop routes are idempotent: a replay inside the window changes nothing (docs/protocol.md, "The signed hop"). */
import { canonicalize } from 'json-canonicalize';
import { describe, expect, test } from 'vitest';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { type HttpRelay, enrolledRelay } from '../support/http-relay.ts';
import { hopBytes, hopV1Bytes } from '../support/hops.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../support/hosts.ts';
import { envelopeWire, itemTo, receiptId, receiptWire } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { rawRequest, requestBytes } from '../support/raw-http.ts';
import { rotationBody } from '../support/rotations.ts';

/** Requests as they went over the wire, in order. */
class Recorder {
  readonly requests: Buffer[] = [];
  readonly #relay: HttpRelay;

  constructor(relay: HttpRelay) {
    this.#relay = relay;
  }

  async send(host: TestHost, method: string, target: string, body?: unknown): Promise<Record<string, unknown>> {
    const hop = this.#relay.hop(host, method, target, body === undefined ? undefined : JSON.stringify(body));
    return this.#record(hopBytes(hop));
  }

  /** With a hop that is found by the name of its host. */
  async sendByName(host: TestHost, method: string, target: string, body?: unknown): Promise<Record<string, unknown>> {
    const hop = this.#relay.hop(host, method, target, body === undefined ? undefined : JSON.stringify(body));
    return this.#record(hopV1Bytes(hop));
  }

  /** Without a hop. */
  sendOpen(target: string, body: unknown): Promise<Record<string, unknown>> {
    return this.#record(requestBytes('POST', target, {}, JSON.stringify(body)));
  }

  async #record(bytes: Buffer): Promise<Record<string, unknown>> {
    this.requests.push(bytes);
    const response = await rawRequest(this.#relay.port, bytes);
    if (response.status !== 200) throw new Error(`not recorded: ${response.body.toString()}`);
    return jsonOf(response);
  }

  async replay(requests: readonly Buffer[]): Promise<number[]> {
    const statuses: number[] = [];
    for (const bytes of requests) statuses.push((await rawRequest(this.#relay.port, bytes)).status);
    return statuses;
  }
}

function v1Envelope(id: string, toHost: string): object {
  return Object.assign(JSON.parse(envelopeWire(id).toString()) as object, { to_host: toHost });
}

/** A document of `host` with the signature beside it, as `name`. */
function signed(host: TestHost, name: string, document: Record<string, unknown>): Record<string, unknown> {
  return { [name]: document, sig: host.signer.sign(Buffer.from(canonicalize(document))) };
}

/** Hosts of v1. */
const [erin, frank] = [hostNamed('erin'), hostNamed('frank')];
const daveAnew = { ...hostNamed('dave anew'), name: dave.name };

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  /** A relay that has seen every hop route and a rotation, and what was sent. */
  const recorded = async (): Promise<{ relay: HttpRelay; recorder: Recorder }> => {
    const relay = await enrolledRelay(adapter, [alice, bob, carol, dave], { limits: { max_queue_items: 6 } });
    await relay.enrolInV1(erin, frank);
    const recorder = new Recorder(relay);
    const { epoch } = relay;
    const wires = ['m1', 'm2', 'm3', 'm4'].map((id) => itemTo([bob], id));
    const pushed = await recorder.send(alice, 'POST', '/v2/relay/items', { items: wires });
    await recorder.send(alice, 'POST', '/v2/relay/items', { items: [itemTo([bob], 'm1', envelopeWire('m1', 300))] });
    await recorder.send(alice, 'POST', '/v2/relay/items', { items: [itemTo([bob, carol], 'm5'), itemTo([bob], 'm1')] });
    const seqs = (pushed['results'] as { targets: { seq: number }[] }[]).map(({ targets }) => targets[0]?.seq ?? 0);
    await recorder.send(bob, 'GET', `/v2/relay/items?epoch=${epoch}&limit=2`);
    await recorder.send(bob, 'POST', '/v2/relay/ack', { epoch, through: seqs[0] });
    await recorder.send(bob, 'POST', '/v2/relay/ack', { epoch, through: seqs[1] });
    const receipt = itemTo([alice], receiptId('m1', 'a@bob', 1), receiptWire(bob, 'm1', 'a@bob', 1));
    await recorder.send(bob, 'POST', '/v2/relay/items', { items: [receipt] });
    await recorder.send(bob, 'GET', '/v2/relay/info');
    const { wallMs: iat } = relay.clock;
    const senders = [alice.key, carol.key];
    const list = { v: 1, type: 'relay-senders', host_pubkey: bob.key, senders, iat };
    await recorder.send(bob, 'POST', '/v2/relay/senders', signed(bob, 'list', list));
    const advertised = { enc_pub: Buffer.alloc(32, 7).toString('base64'), at: iat };
    const { sig } = signed(bob, 'of', { v: 1, type: 'relay-enc-key', host_pubkey: bob.key, ...advertised });
    await recorder.send(bob, 'POST', '/v1/relay/enc-key', { ...advertised, sig });
    await recorder.send(alice, 'GET', `/v2/relay/enc-key?key=${encodeURIComponent(bob.key)}`);
    await recorder.sendByName(erin, 'GET', '/v1/relay/enc-key?host=bob');
    const envelopes = ['v1-1', 'v1-2'].map((id) => v1Envelope(id, 'frank'));
    await recorder.sendByName(erin, 'POST', '/v1/relay/messages', { envelopes });
    const { cursor } = await recorder.sendByName(frank, 'GET', '/v1/relay/messages');
    await recorder.sendByName(frank, 'POST', '/v1/relay/ack', { cursor });
    await recorder.send(alice, 'POST', '/v2/relay/items', { items: [itemTo([dave], 'm0')] });
    const rotated = await recorder.sendOpen('/v2/relay/rotate', rotationBody(dave, daveAnew));
    expect(rotated['moved_items']).toBe(1);
    // Not to the old key any more: that is refused now, however often it is sent.
    recorder.requests.splice(-2, 1);
    await recorder.send(alice, 'GET', `/v2/relay/rotation?key=${encodeURIComponent(dave.key)}`);
    // The last of these finds no room.
    const full = ['m6', 'm7', 'm8', 'm9'].map((id) => itemTo([bob], id));
    const refused = await recorder.send(carol, 'POST', '/v2/relay/items', { items: full });
    expect(JSON.stringify(refused)).toContain('rejected:quota:queue_items');
    return { relay, recorder };
  };

  test('every hop replayed inside the window changes nothing, in any order, also over a restart', async () => {
    const { relay, recorder } = await recorded();
    const { requests } = recorder;
    await relay.stop();
    const before = await relay.stored();
    await relay.start();
    const { epoch } = relay;

    const statuses = await recorder.replay(requests);
    expect(statuses.every((status) => status === 200)).toBe(true);
    relay.clock.move(290_000);
    await recorder.replay(requests.toReversed());
    await Promise.all(requests.map((bytes) => recorder.replay([bytes, bytes])));

    expect(relay.epoch).toBe(epoch);
    await relay.stop();
    const after = await relay.stored();
    expect(after.events).toEqual(before.events);
    expect(after.rows).toEqual(before.rows);
    await relay.start();
  });

  test('outside the window a replay is refused', async () => {
    const { relay, recorder } = await recorded();
    const lsn = await relay.lastLsn();
    relay.clock.move(300_001);
    const hops = recorder.requests.filter((bytes) => !bytes.includes('/v2/relay/rotate'));
    expect(hops).toHaveLength(recorder.requests.length - 1);
    for (const bytes of hops) {
      const response = await rawRequest(relay.port, bytes);
      const isInfo = bytes.includes('/v2/relay/info');
      expect(isInfo ? jsonOf(response)['you'] : jsonOf(response)['code']).toBe(isInfo ? undefined : 'CLOCK_SKEW');
    }
    expect(await relay.lastLsn()).toBe(lsn);
  });

  test('a hop sent to another route, or with another method, is none', async () => {
    const { relay, recorder } = await recorded();
    const lsn = await relay.lastLsn();
    for (const bytes of recorder.requests) {
      const text = bytes.toString('latin1');
      for (const [from, to] of [
        ['/v2/relay/items', '/v2/relay/ack'],
        ['/v2/relay/ack', '/v2/relay/items'],
        ['/v2/relay/info', '/v2/relay/items'],
        ['/v2/relay/senders', '/v2/relay/ack'],
        ['/v2/relay/enc-key', '/v1/relay/enc-key'],
        ['/v1/relay/enc-key', '/v1/relay/messages'],
        ['/v1/relay/messages', '/v1/relay/ack'],
        ['/v1/relay/ack', '/v1/relay/messages'],
      ] as const) {
        if (!text.includes(` ${from}`)) continue;
        const moved = Buffer.from(text.replace(` ${from}`, ` ${to}`), 'latin1');
        expect(Math.floor((await rawRequest(relay.port, moved)).status / 100)).toBe(4);
      }
    }
    expect(await relay.lastLsn()).toBe(lsn);
  });

  test('a rotation replayed at any later time moves nothing, also after another rotation and new mail', async () => {
    const { relay, recorder } = await recorded();
    const rotations = recorder.requests.filter((bytes) => bytes.includes('/v2/relay/rotate'));
    const last = { ...hostNamed('dave at last'), name: dave.name };
    await relay.client(alice).push([itemTo([daveAnew], 'after')]);
    await recorder.sendOpen('/v2/relay/rotate', rotationBody(daveAnew, last));
    const queue = await relay.queue(last);
    expect(queue.map(({ itemId }) => itemId)).toEqual(['m0', 'after']);
    const lsn = await relay.lastLsn();
    relay.clock.move(400 * 86_400_000);
    for (const bytes of rotations) {
      const response = await rawRequest(relay.port, bytes);
      expect(jsonOf(response)).toMatchObject({ host_pubkey: daveAnew.key, moved_items: 0 });
    }
    expect(await relay.queue(last)).toEqual(queue);
    expect(await relay.lastLsn()).toBe(lsn);
  });

  test('what the old key sent is refused after its rotation, inside the window too, and changes nothing', async () => {
    const { relay, recorder } = await recorded();
    const bobAnew = { ...hostNamed('bob anew'), name: bob.name };
    const ofBob = recorder.requests.filter((bytes) => bytes.includes(`x-mail-key: ${bob.key}`));
    await recorder.sendOpen('/v2/relay/rotate', rotationBody(bob, bobAnew));
    const lsn = await relay.lastLsn();
    const statuses = await recorder.replay(ofBob.filter((bytes) => !bytes.includes('/v2/relay/info')));
    expect(statuses.length).toBeGreaterThan(5);
    expect(new Set(statuses)).toEqual(new Set([401]));
    expect(await relay.lastLsn()).toBe(lsn);
  });
});
