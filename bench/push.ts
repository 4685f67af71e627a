/** Pushes through HTTP: prepared requests over several connections, each with a sender and a target of its own. */
import type { Signer } from '../src/protocol/ed25519.ts';
import { BINARY_TYPE } from '../src/protocol/message-pack.ts';
import { TREE_RECEIPTS } from '../src/protocol/hop.ts';
import { RelayClient } from '../src/host/relay/relay-client.ts';
import { Connection } from './connection.ts';
import { type Timing, paced, timed } from './figures.ts';
import type { BenchRelay } from './relay-process.ts';
import { type Form, namedSigner, pushRequests } from './work.ts';

/** Where to push: a relay, or the floor, where no host has to be enrolled. */
export type PushTarget = Pick<BenchRelay, 'port' | 'relayPubkey'> & { isFloor?: true };

export interface PushLoad {
  relay: PushTarget;
  connections: number;
  requestsPerConnection: number;
  itemsPerRequest: number;
  itemBytes: number;
  /** JSON when absent. */
  form?: Form;
}

/** `begin` is called when everything is signed, right before the first is sent. */
export function push(load: PushLoad, begin = () => undefined as void): Promise<Timing> {
  return pushed(load, (lanes, send) => {
    begin();
    return timed(lanes, send);
  });
}

/** So many requests a second, whether or not earlier ones were answered. */
export function pushPaced(load: PushLoad, requestsPerS: number): Promise<Timing> {
  return pushed(load, (lanes, send) => {
    // Of each sender in turn.
    const requests = Array.from({ length: load.requestsPerConnection }, (_none, at) => lanes.map((lane) => lane[at]!));
    return paced(requests.flat(), { lanes: load.connections, perSecond: requestsPerS }, send);
  });
}

type Send = (request: Buffer, lane: number) => Promise<void>;

async function pushed(
  load: PushLoad,
  run: (lanes: readonly (readonly Buffer[])[], send: Send) => Promise<Timing>,
): Promise<Timing> {
  const { relay, connections, requestsPerConnection: requests, itemsPerRequest, itemBytes } = load;
  const open: Connection[] = [];
  const hosts: [sender: Signer, target: Signer][] = [];
  for (let lane = 0; lane < connections; lane++)
    hosts.push([await enrolled(relay, senderName(lane)), await enrolled(relay, targetName(lane))]);
  const form = await formAt(relay, load.form ?? 'JSON');
  const lanes = hosts.map(([sender, { publicKey: target }]) =>
    pushRequests({ sender, target, requests, itemsPerRequest, itemBytes, relayPubkey: relay.relayPubkey, form }),
  );
  // When all is signed: a relay ends a connection on which nothing comes.
  for (let lane = 0; lane < connections; lane++) open.push(await Connection.open(relay.port));
  const timing = await run(lanes, async (request, lane) => accepted(open[lane]!, request));
  for (const connection of open) connection.close();
  return timing;
}

/** In JSON, and in the binary form, where a byte says how long the text is. */
const ACCEPTED = /status[^a-z]{1,3}accepted/;

/** Sends a push; fails when its first item is not accepted. */
export async function accepted(connection: Connection, request: Buffer): Promise<void> {
  const reply = await connection.send(request);
  if (reply.status !== 200 || !ACCEPTED.test(reply.start)) {
    throw new Error(`a push was answered ${reply.status} ${reply.start}`);
  }
}

/** The form, or what a host uses in its place where the relay does not list it. */
export async function formAt({ port, isFloor }: PushTarget, form: Form): Promise<Form> {
  if (isFloor || form === 'JSON') return form;
  // A connection that is kept may be ended while this process signs.
  const info = await fetch(`http://127.0.0.1:${port}/v2/relay/info`, { headers: { connection: 'close' } });
  const { forms = [], receipts = [] } = (await info.json()) as { forms?: string[]; receipts?: string[] };
  if (form === 'binary' && forms.includes(BINARY_TYPE)) return form;
  return receipts.includes(TREE_RECEIPTS) ? 'tree' : 'JSON';
}

export function senderName(lane: number): string {
  return `sender-${lane}`;
}

export function targetName(lane: number): string {
  return `target-${lane}`;
}

export async function enrolled(relay: PushTarget, name: string): Promise<Signer> {
  const signer = namedSigner(name);
  if (relay.isFloor) return signer;
  const url = `http://127.0.0.1:${relay.port}`;
  await new RelayClient({ url, signer, hostName: name, nowMs: () => Date.now() }).enrol();
  return signer;
}
