/**
 * An ack of 10,000 items: how long until it is answered, and how long it and the collection after it hold the loop.
 * In this process, on a real store: the figure is the longest time between two turns of the loop.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sha256Hex } from '../src/protocol/digest.ts';
import { EPOCH_RANDOM_BYTES, epochFromRandom } from '../src/protocol/epoch.ts';
import { parsePushedItem } from '../src/protocol/items.ts';
import { DEFAULT_LIMITS } from '../src/protocol/limits.ts';
import { type HostName } from '../src/protocol/names.ts';
import type { PushItem } from '../src/relay/core/command.ts';
import { Engine } from '../src/relay/engine/engine.ts';
import { openStore } from '../src/relay/store/open.ts';
import { LoopWatch } from '../test/support/loop-watch.ts';
import { namedSigner, sealedEnvelope } from './work.ts';

const ITEMS = 10_000;
const ITEMS_PER_REQUEST = 200;

const newEpoch = () => epochFromRandom(randomBytes(EPOCH_RANDOM_BYTES));
const monotonicMs = () => performance.now();
const failed = (error: Error): void => {
  throw error;
};

export interface AckFigures {
  answeredMs: number;
  /** The longest hold of the loop until the answer, the load of the queue's index included. */
  heldMs: number;
  /** The longest hold while the rows were collected. */
  collectingHeldMs: number;
}

export async function ackAll(): Promise<AckFigures> {
  const folder = mkdtempSync(join(tmpdir(), 'poste-bench-'));
  const limits = { ...DEFAULT_LIMITS, max_sender_items: ITEMS };
  const settings = { limits, admission: 'open', enrolmentsMax: 10, dedupRowsMax: 1_000_000 } as const;
  const start = async () => {
    const { store } = await openStore({ folder, nowMs: Date.now(), newEpoch });
    const options = { store, settings, signer: namedSigner('relay'), monotonicMs, failed };
    return { store, engine: await Engine.start(options, Date.now()) };
  };
  let relay = await start();
  const [sender, target] = [namedSigner('ack sender').publicKey, namedSigner('ack target').publicKey];
  const enrol = {
    type: 'EnrolHost',
    ownerFp: '',
    authorizedBy: 'host-key',
    answer: { ok: true },
    inviteHash: undefined,
  } as const;
  for (const hostPubkey of [sender, target]) {
    await relay.engine.enrol({ ...enrol, hostPubkey, hostName: 'bench' as HostName, nowMs: Date.now() });
  }
  for (let request = 0; request < ITEMS / ITEMS_PER_REQUEST; request++) {
    const commands = Array.from({ length: ITEMS_PER_REQUEST }, (_none, at): PushItem => {
      const id = `ack-${request}-${at}`;
      const wire = sealedEnvelope(id, 1024);
      const text = {
        kind: 'envelope',
        item_id: id,
        targets: [{ host_pubkey: target, wire_b64: wire.toString('base64') }],
      };
      const item = parsePushedItem(text, { targetsMax: 1, itemBytesMax: 2048 });
      if (item?.targets[0]?.wireHash !== sha256Hex(wire)) throw new Error('invariant: the benchmark pushes good items');
      return {
        type: 'PushItem',
        senderPubkey: sender,
        item,
        isKnownById: false,
        wireVerdict: 'ok',
        freshEpoch: newEpoch(),
        nowMs: Date.now(),
      };
    });
    await relay.engine.push(commands, (outcomes) => outcomes);
  }
  // A fresh start: the queue's index is not in memory yet.
  await relay.engine.close();
  await relay.store.close();
  relay = await start();
  const { engine, store } = relay;
  const through = engine.head(target).headSeq;
  const watch = new LoopWatch();
  const started = performance.now();
  await engine.ack({ type: 'AckItems', targetPubkey: target, epoch: engine.epoch, through, nowMs: Date.now() });
  const answeredMs = performance.now() - started;
  const heldMs = watch.stop();
  const collecting = new LoopWatch();
  while (store.collector.isPending) {
    await engine.heartbeat(Date.now());
  }
  const collectingHeldMs = collecting.stop();
  await engine.close();
  await store.close();
  rmSync(folder, { recursive: true });
  return { answeredMs, heldMs, collectingHeldMs };
}
