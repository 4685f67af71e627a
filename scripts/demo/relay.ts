/**
 * The relay's main job on real input, step by step.
 *
 * A relay in a temporary folder; two hosts enrol; one pushes a really sealed envelope; the relay is killed with
 * SIGKILL and started again on the same store; the other host pulls, opens and acks. Every check that a host would
 * make is made, and the demo fails if one does not hold.
 */
import { strict as assert } from 'node:assert';
import { randomBytes } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Envelope,
  type SealedContent,
  generateSealKey,
  openSeal,
  sealEnvelope,
} from '../../src/host/wire/sealing.ts';
import { RelayClient } from '../../src/host/relay/relay-client.ts';
import { canonicalBytes } from '../../src/protocol/documents.ts';
import { sha256Hex } from '../../src/protocol/encodings.ts';
import { signerFromSeed, verifySignature } from '../../src/protocol/ed25519.ts';
import { isReceiptSigned } from '../../src/protocol/receipt-tree.ts';
import { type PublicKey, displayFingerprint } from '../../src/protocol/public-key.ts';
import { relayProcess } from '../../test/support/poste-process.ts';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';
import { step } from './step.ts';

const BODY = 'The nightly build is red since 04:10: please look at the lock file.';

/** Says whether any file of the store holds `text`. */
function storeHolds(folder: string, text: string): boolean {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .some((entry) => readFileSync(join(entry.parentPath, entry.name)).includes(text));
}

export async function showRelay(): Promise<void> {
  const folder = await temporaryFolder('poste-demo-');
  const serve = async () => {
    const { process: running, start } = await relayProcess(folder, ['--position-file', join(folder, 'position')]);
    return { running, url: start.url, relayPubkey: start.relay_pubkey as PublicKey, epoch: start.epoch };
  };
  let relay = await serve();
  step(
    'A relay is running',
    `at ${relay.url}, its store in ${folder}`,
    `key ${displayFingerprint(relay.relayPubkey)}, epoch ${relay.epoch}`,
  );

  const host = (hostName: string, signer = signerFromSeed(randomBytes(32))) => ({
    signer,
    hostName,
    at: (url: string) => new RelayClient({ url, signer, hostName, nowMs: () => Date.now() }, relay.relayPubkey),
  });
  const [laptop, server] = [host('laptop'), host('server')];
  for (const one of [laptop, server]) {
    await one.at(relay.url).enrol();
    step(`Host ${one.hostName} enrols with its own key`, `key ${displayFingerprint(one.signer.publicKey)}`);
  }

  const sealKey = await generateSealKey();
  const envelope = await sealEnvelope(
    {
      v: 1,
      type: 'envelope',
      id: `demo-${randomBytes(8).toString('hex')}`,
      from: 'builder@laptop',
      from_host_pubkey: laptop.signer.publicKey,
      to: ['reviewer@server'],
      to_host: 'server',
      subject: 'Nightly build',
      created_at: Date.now(),
    },
    { kind: 'request', needs_reply: true, origin: null, refs: [], reply_to: null, thread: 'demo', body: BODY },
    sealKey.enc_pub,
    laptop.signer,
  );
  const wire = canonicalBytes(envelope);
  step(
    'laptop seals a message for server (HPKE)',
    `subject, in the open: ${envelope.subject}`,
    `body, sealed: ${envelope.sealed.ct.slice(0, 48)}...`,
  );

  const item = {
    kind: 'envelope' as const,
    item_id: envelope.id,
    targets: [{ host_pubkey: server.signer.publicKey, wire_b64: wire.toString('base64') }],
  };
  const first = (await laptop.at(relay.url).push([item])).results[0];
  assert.equal(first?.status, 'accepted');
  assert.ok(first.accept && isReceiptSigned(relay.relayPubkey, first));
  assert.equal(first.accept.targets[0]?.wire_hash, sha256Hex(wire));
  step(
    'laptop pushes it, and verifies the accept receipt',
    `status ${first.status}, seq ${first.targets?.[0]?.seq}`,
    `signed by the relay over SHA-256 ${sha256Hex(wire).slice(0, 24)}...`,
  );

  await relay.running.kill();
  step('The relay is killed (kill -9)');
  assert.equal(storeHolds(folder, BODY), false);
  const before = relay.epoch;
  relay = await serve();
  assert.equal(relay.epoch, before);
  step('It starts again on the same store', `same key, same epoch ${relay.epoch}; the store holds no plaintext`);

  const again = (await laptop.at(relay.url).push([item])).results[0];
  assert.equal(again?.status, 'duplicate');
  assert.deepEqual(again.targets, first.targets);
  step('laptop, unsure, pushes the same bytes again', `status ${again.status}, the same seq: nothing is doubled`);

  const page = await server.at(relay.url).pull({ epoch: relay.epoch, wait: 5 });
  const pulled = page.items[0];
  assert.equal(page.items.length, 1);
  assert.ok(pulled && pulled.wire.equals(wire));
  step(
    'server pulls, and has exactly the bytes that were pushed',
    `${page.items.length} item, seq ${pulled.seq}, ${wire.length} bytes`,
  );

  const received = JSON.parse(wire.toString('utf8')) as Envelope;
  const { sig, hops: _hops, ...signed } = received;
  assert.ok(verifySignature(laptop.signer.publicKey, canonicalBytes(signed), sig));
  const opened = JSON.parse(
    (await openSeal(received, { encPub: sealKey.enc_pub, secret: sealKey.secret })).toString('utf8'),
  ) as SealedContent;
  assert.equal(opened.body, BODY);
  step("server checks laptop's signature and opens the seal", `"${opened.body}"`);

  const acked = await server.at(relay.url).ack(page.epoch, page.last_seq);
  assert.equal(acked.deleted, 1);
  const empty = await server.at(relay.url).pull({ after: 0, epoch: relay.epoch });
  assert.equal(empty.items.length, 0);
  step(
    'server acks: the relay deletes the item',
    `acked through ${acked.acked_through}, ${empty.items.length} items left`,
  );

  relay.running.signal('SIGTERM');
  assert.equal((await relay.running.ended()).code, 0);
}
