/** Pushes through HTTP: prepared requests over several connections, each with a sender and a target of its own. */
import { RelayClient } from '../src/host/relay/relay-client.ts';
import { Connection } from './connection.ts';
import { type Timing, timed } from './figures.ts';
import type { BenchRelay } from './relay-process.ts';
import { PUSH_TARGET, namedSigner, pushRequests, requestBytes } from './work.ts';

export interface PushLoad {
  relay: BenchRelay;
  connections: number;
  requestsPerConnection: number;
  itemsPerRequest: number;
  itemBytes: number;
}

export async function push(load: PushLoad): Promise<Timing> {
  const { relay, connections, requestsPerConnection, itemsPerRequest, itemBytes } = load;
  const { relayPubkey, port } = relay;
  const lanes: Buffer[][] = [];
  const open: Connection[] = [];
  for (let lane = 0; lane < connections; lane++) {
    const sender = await enrolled(relay, `sender-${lane}`);
    const target = (await enrolled(relay, targetName(lane))).publicKey;
    const requests = requestsPerConnection;
    const prepared = pushRequests({ sender, target, requests, itemsPerRequest, itemBytes, relayPubkey });
    lanes.push(
      prepared.map(({ body, timestamp, signature }) => {
        const hop = { 'x-mail-key': sender.publicKey, 'x-mail-ts': timestamp, 'x-mail-sig': signature };
        return requestBytes('POST', PUSH_TARGET, hop, body);
      }),
    );
    open.push(await Connection.open(port));
  }
  const timing = await timed(lanes, async (request, lane) => {
    const reply = await open[lane]!.send(request);
    if (reply.status !== 200 || !reply.start.includes('"status":"accepted"')) {
      throw new Error(`a push was answered ${reply.status} ${reply.start}`);
    }
  });
  for (const connection of open) connection.close();
  return timing;
}

export function targetName(lane: number): string {
  return `target-${lane}`;
}

async function enrolled(relay: BenchRelay, name: string): Promise<ReturnType<typeof namedSigner>> {
  const signer = namedSigner(name);
  const url = `http://127.0.0.1:${relay.port}`;
  await new RelayClient({ url, signer, hostName: name, nowMs: () => Date.now() }).enrol();
  return signer;
}
