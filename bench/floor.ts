/**
 * The floor: a program that does only the unavoidable work of pushes, in one process and without HTTP. For each
 * request: hash the body and verify one hop, parse the JSON, decode and hash every item, write them in a synced LevelDB
 * batch, and sign a receipt for each while a batch is being synced. Requests that wait for the disk share the next
 * batch. Nothing is checked, counted or indexed. It signs and verifies by the same library as the relay.
 */
import { hash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ClassicLevel } from 'classic-level';
import { verifySignature } from '../src/protocol/ed25519.ts';
import { hopV2Message } from '../src/protocol/hop.ts';
import { sha256Hex } from '../src/protocol/encodings.ts';
import { type Timing, timed } from './figures.ts';
import { GroupCommit } from './group-commit.ts';
import { PUSH_TARGET, type PushRequest, namedSigner, pushRequests } from './work.ts';

export interface FloorWork {
  /** Requests side by side. */
  lanes: number;
  requestsPerLane: number;
  itemsPerRequest: number;
  itemBytes: number;
  /** Requests of each lane that come before those that are measured: V8 compiles what runs often. */
  warmRequestsPerLane: number;
}

export async function floor(floorWork: FloorWork): Promise<Timing> {
  const { lanes, requestsPerLane, itemsPerRequest, itemBytes, warmRequestsPerLane } = floorWork;
  const folder = mkdtempSync(join(tmpdir(), 'poste-bench-'));
  const level = new ClassicLevel<Buffer, Buffer>(folder, { keyEncoding: 'buffer', valueEncoding: 'buffer' });
  await level.open();
  const committed = new GroupCommit(level);
  const sender = namedSigner('sender');
  const relay = namedSigner('relay');
  const target = namedSigner('target').publicKey;
  const work = { sender, target, requests: requestsPerLane, itemsPerRequest, itemBytes, relayPubkey: relay.publicKey };
  const prepared = Array.from({ length: lanes }, () => pushRequests(work));
  let seq = 0;
  const pushOne = async ({ body, timestamp, signature }: PushRequest): Promise<void> => {
    const fields = { method: 'POST', target: PUSH_TARGET, timestamp, bodyHash: sha256Hex(body) };
    const message = hopV2Message(fields, relay.publicKey);
    if (!verifySignature(sender.publicKey, message, signature)) throw new Error('the hop does not verify');
    const { items } = JSON.parse(body.toString('utf8')) as {
      items: { item_id: string; targets: { host_pubkey: string; wire_b64: string }[] }[];
    };
    const stored = items.map((item) => {
      const wire = Buffer.from(item.targets[0]!.wire_b64, 'base64');
      const key = Buffer.alloc(8);
      key.writeBigUInt64BE(BigInt(++seq));
      return { item, wire, key, seq, wireHash: hash('sha256', wire, 'hex') };
    });
    const written = committed.put(stored.map(({ key, wire }) => [key, wire]));
    for (const { item, wireHash, seq: at } of stored) {
      const receipt = JSON.stringify({ at, item_id: item.item_id, host: item.targets[0]!.host_pubkey, wireHash });
      relay.sign(Buffer.from(receipt));
    }
    await written;
  };
  await timed(
    prepared.map((requests) => requests.slice(0, warmRequestsPerLane)),
    pushOne,
  );
  const timing = await timed(prepared, pushOne);
  await level.close();
  rmSync(folder, { recursive: true });
  return timing;
}
