// Two hosts at a relay: one pushes a sealed message, the other pulls, opens and acks it, and the sender checks the proof.
// Usage: node client.mjs http://127.0.0.1:8787
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import {
  RelayClient,
  checkProofs,
  generateSealKey,
  isReceiptSigned,
  openSeal,
  sealEnvelope,
  signerFromSeed,
} from 'poste/client';
import { canonicalBytes, encKeyAdvertisement, senderList, signDocument } from 'poste/protocol';

const url = process.argv[2] ?? 'http://127.0.0.1:8787';

async function enrolledHost(hostName) {
  const signer = signerFromSeed(randomBytes(32));
  const client = new RelayClient({ url, signer, hostName, nowMs: Date.now });
  await client.enrol();
  return { hostName, signer, client, key: signer.publicKey };
}

const [laptop, server] = [await enrolledHost('laptop'), await enrolledHost('server')];

// The target says whose mail it takes, and to which key mail for it is sealed.
const sealKey = await generateSealKey();
const list = senderList({ host_pubkey: server.key, senders: [laptop.key], iat: Date.now() });
await server.client.publishSenders(list, signDocument(server.signer, list));
const advertisement = encKeyAdvertisement({ host_pubkey: server.key, enc_pub: sealKey.enc_pub, at: Date.now() });
const { enc_pub, at } = advertisement;
await server.client.publishEncKey({ enc_pub, at, sig: signDocument(server.signer, advertisement) });

const id = `msg_${randomBytes(16).toString('hex')}`;
const { enc_pub: sealTo } = await laptop.client.encKeyOf(server.key);
const envelope = await sealEnvelope(
  {
    v: 1,
    type: 'envelope',
    id,
    from: 'builder@laptop',
    from_host_pubkey: laptop.key,
    to: ['tester@server'],
    to_host: 'server',
    subject: 'Ready',
    created_at: Date.now(),
  },
  { kind: 'message', needs_reply: false, origin: null, refs: [], reply_to: null, thread: id, body: 'Hello' },
  sealTo,
  laptop.signer,
);
const wire = canonicalBytes(envelope);
const pushed = await laptop.client.push([
  { kind: 'envelope', item_id: id, targets: [{ host_pubkey: server.key, wire }] },
]);
const [result] = pushed.results;
assert.equal(result.status, 'accepted');

// The receipt is signed with the relay's key, which a host pins.
const { relay_pubkey: relayKey } = await laptop.client.info();
assert(isReceiptSigned(relayKey, result));

const page = await server.client.pull();
const received = JSON.parse(page.items[0].wire.toString());
const opened = JSON.parse((await openSeal(received, { encPub: sealKey.enc_pub, secret: sealKey.secret })).toString());
assert.equal(opened.body, 'Hello');
const { deleted } = await server.client.ack(page.epoch, page.last_seq);
assert.equal(deleted, 1);

// The mail is deleted; that it was accepted is still proven.
const proof = await laptop.client.logProof(id, server.key);
const { verified } = checkProofs({ proofs: [proof], accept: { accept: result.accept, sig: result.sig }, relayKey });
console.log(verified.map(({ sentence }) => sentence).join('\n'));
