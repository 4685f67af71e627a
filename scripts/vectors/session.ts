/**
 * A whole first session of two hosts with one relay: every request to the byte, and what is answered.
 *
 * test/support/vectors/session.ts sends exactly these requests to a relay and compares every answer.
 */
import { BINARY_TYPE } from '../../src/protocol/message-pack.ts';
import { encodeBase64, sha256Hex } from '../../src/protocol/encodings.ts';
import { enrolClaim } from '../../src/protocol/documents.ts';
import { HOP_HEADERS, hopV2Message } from '../../src/protocol/hop.ts';
import { CHALLENGE_LIFETIME_MS, DEFAULT_LIMITS } from '../../src/protocol/limits.ts';
import { acceptOf, encKeyParts, pushedReceipt, senderListParts } from './documents.ts';
import { FIRST_STORY, sealedAgain } from './envelope.ts';
import { AT, EPOCH, type Party, alice, bob, bobSealKey, hostOf, keysOf, relay, signed } from './parties.ts';

/** One second lies between a step and the next. */
const STEP_MS = 1000;
const VERSION = '0.1.0';

interface Request {
  method: 'GET' | 'POST';
  target: string;
  body?: object;
  /** The party that signs the hop; without one nobody does. */
  hop?: Party;
}

/** The relay stores this of one pushed item. */
interface Pushed {
  from: Party;
  to: Party;
  kind: 'envelope' | 'receipt';
  itemId: string;
  wire: Buffer;
  seq: number;
}

class Session {
  readonly steps: object[] = [];

  /** When the next step happens. */
  get nowMs(): number {
    return AT + this.steps.length * STEP_MS;
  }

  step(name: string, { method, target, body, hop }: Request, answer: object): void {
    const text = body && JSON.stringify(body);
    const length = text === undefined ? undefined : String(Buffer.byteLength(text));
    const { headers, ...signedText } = hop ? this.#hop(hop, method, target, text ?? '') : { headers: {} };
    const request = {
      method,
      target,
      headers: {
        ...(length !== undefined && { 'content-type': 'application/json', 'content-length': length }),
        ...headers,
      },
      body: text ?? null,
      ...signedText,
    };
    this.steps.push({ name, at: this.nowMs, request, response: { status: 200, body: answer } });
  }

  enrol(host: Party, challengeByte: number): void {
    const { publicKey: pubkey } = host.signer;
    const { publicKey: relay_pubkey } = relay.signer;
    const challenge = encodeBase64(Buffer.alloc(32, challengeByte));
    this.step(
      `${host.host} asks for a challenge`,
      { method: 'POST', target: '/v1/relay/challenge', body: { pubkey } },
      { challenge, relay_pubkey, expires_at: this.nowMs + CHALLENGE_LIFETIME_MS },
    );
    const claims = { host: host.host, pubkey, owner_fp: '' };
    const { signature: sig } = signed(enrolClaim({ challenge, relay_pubkey, ...claims }), host.signer);
    this.step(
      `${host.host} enrols`,
      { method: 'POST', target: '/v1/relay/enrol', body: { ...claims, sig } },
      {
        host: host.host,
        host_pubkey: pubkey,
        enrolled_at: this.nowMs,
        authorized_by: 'host-key',
        account: null,
        crowded: false,
        epoch: EPOCH,
      },
    );
  }

  push(name: string, pushed: Pushed, status: 'accepted' | 'duplicate'): void {
    const { from, to, kind, itemId, wire, seq } = pushed;
    const { publicKey: host_pubkey } = to.signer;
    const item = { kind, item_id: itemId, targets: [{ host_pubkey, wire_b64: encodeBase64(wire) }] };
    const { document: accept, signature: sig } = acceptOf(from, itemId, [{ host: to, seq, wire }], seq);
    this.step(
      name,
      { method: 'POST', target: '/v2/relay/items', body: { items: [item] }, hop: from },
      { epoch: EPOCH, results: [{ item_id: itemId, status, targets: [{ host_pubkey, seq }], accept, sig }] },
    );
  }

  /** The target pulls what was pushed, and then acks it. */
  pullAndAck({ from, to, kind, itemId, wire, seq }: Pushed): void {
    const item = {
      seq,
      kind,
      item_id: itemId,
      sender_pubkey: from.signer.publicKey,
      wire_b64: encodeBase64(wire),
    };
    this.step(
      `${to.host} pulls`,
      { method: 'GET', target: `/v2/relay/items?after=0&limit=500&epoch=${EPOCH}`, hop: to },
      { epoch: EPOCH, head_seq: seq, items: [item], last_seq: seq, more: false },
    );
    this.step(
      `${to.host} acks`,
      { method: 'POST', target: '/v2/relay/ack', body: { epoch: EPOCH, through: seq }, hop: to },
      { acked_through: seq, deleted: 1, head_seq: seq },
    );
  }

  #hop(host: Party, method: string, target: string, body: string): { headers: object; signed_message: string } {
    const timestamp = String(this.nowMs);
    const message = hopV2Message({ method, target, timestamp, bodyHash: sha256Hex(body) }, relay.signer.publicKey);
    const headers = {
      [HOP_HEADERS.host]: host.host,
      [HOP_HEADERS.key]: host.signer.publicKey,
      [HOP_HEADERS.timestamp]: timestamp,
      [HOP_HEADERS.signature]: host.signer.sign(message),
    };
    return { headers, signed_message: message.toString('utf8') };
  }
}

async function steps(): Promise<object[]> {
  const session = new Session();
  const identity = () => {
    const fixed = {
      v: 2,
      relay_pubkey: relay.signer.publicKey,
      epoch: EPOCH,
      limits: DEFAULT_LIMITS,
      forms: [BINARY_TYPE],
      receipts: ['tree'],
      version: VERSION,
    };
    return { ...fixed, now: session.nowMs };
  };
  const info = { method: 'GET', target: '/v2/relay/info' } as const;
  session.step('anybody asks who the relay is', info, identity());
  session.enrol(alice, 0x10);
  session.enrol(bob, 0x20);
  session.step(
    `${alice.host} asks what the relay holds for it`,
    { ...info, hop: alice },
    { ...identity(), you: { host: alice.host, pubkey: alice.signer.publicKey, head_seq: 0, acked_through: 0 } },
  );

  const advertised = encKeyParts(bob, bobSealKey, session.nowMs);
  session.step(
    `${bob.host} publishes the key that its mail is sealed to`,
    { method: 'POST', target: '/v1/relay/enc-key', body: advertised.request, hop: bob },
    { at: session.nowMs },
  );
  const list = senderListParts(bob, [alice], session.nowMs);
  session.step(
    `${bob.host} publishes whose mail it takes`,
    { method: 'POST', target: '/v2/relay/senders', body: list.request, hop: bob },
    { senders: 1, iat: session.nowMs },
  );
  const key = encodeURIComponent(bob.signer.publicKey);
  session.step(
    `${alice.host} reads the key of ${bob.host}`,
    { method: 'GET', target: `/v2/relay/enc-key?key=${key}`, hop: alice },
    advertised.shown,
  );

  const { wire } = await sealedAgain(FIRST_STORY);
  const { head } = FIRST_STORY;
  const envelope: Pushed = { from: alice, to: bob, kind: 'envelope', itemId: head.id, wire, seq: session.nowMs };
  session.push(`${alice.host} pushes an envelope`, envelope, 'accepted');
  session.push(`${alice.host}, which heard no answer, pushes the same bytes again`, envelope, 'duplicate');
  session.pullAndAck(envelope);

  const receipt = pushedReceipt({
    msg: head.id,
    from: bob,
    recipient: `reviewer@${bob.host}`,
    to: alice,
    seq: session.nowMs,
    state: 'delivered',
    at: session.nowMs,
    envelopeHash: sha256Hex(wire),
  });
  const { itemId } = receipt;
  const pushed: Pushed = { from: bob, to: alice, kind: 'receipt', itemId, wire: receipt.wire, seq: session.nowMs };
  session.push(`${bob.host} pushes a delivery receipt`, pushed, 'accepted');
  session.pullAndAck(pushed);
  return session.steps;
}

export async function sessionVectors() {
  return {
    description: [
      'A first session of two hosts with one relay, in the order in which it happens. "at" is when the relay read the',
      'request; "request.body" is the text whose UTF-8 bytes were sent and hashed, and "request.signed_message" what',
      'the hop signs. A request is exactly what is sent, but for the header "host", which HTTP wants too. The order',
      'of members in an answer means nothing. The sealed envelope is the first of envelope.json.',
    ],
    relay: keysOf(relay),
    hosts: [hostOf(alice), { ...hostOf(bob), enc_pub: bobSealKey.encPub, enc_secret: bobSealKey.secret }],
    cases: await steps(),
  };
}
