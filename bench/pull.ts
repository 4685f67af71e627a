/** Pulls of full pages: every connection pulls the first page of its own target's queue again and again. */
import { RelayClient } from '../src/host/relay/relay-client.ts';
import { Connection } from './connection.ts';
import { type Timing, timed } from './figures.ts';
import { targetName } from './push.ts';
import type { BenchRelay } from './relay-process.ts';
import { namedSigner, requestBytes } from './work.ts';

export interface PullLoad {
  relay: BenchRelay;
  connections: number;
  pagesPerConnection: number;
}

export async function pull({ relay, connections, pagesPerConnection }: PullLoad): Promise<Timing> {
  const { port, relayPubkey } = relay;
  const target = '/v2/relay/items?limit=500';
  const lanes: Buffer[][] = [];
  const open: Connection[] = [];
  for (let lane = 0; lane < connections; lane++) {
    const signer = namedSigner(targetName(lane));
    const options = { url: `http://127.0.0.1:${port}`, signer, hostName: targetName(lane), nowMs: () => Date.now() };
    const headers = new RelayClient(options, relayPubkey).hopHeaders('GET', target, '');
    const request = requestBytes('GET', target, headers, Buffer.alloc(0));
    lanes.push(Array.from({ length: pagesPerConnection }, () => request));
    open.push(await Connection.open(port));
  }
  const timing = await timed(lanes, async (request, lane) => {
    const reply = await open[lane]!.send(request);
    if (reply.status !== 200 || !reply.end.includes('"more":true'))
      throw new Error(`a pull was answered ${reply.status}`);
  });
  for (const connection of open) connection.close();
  return timing;
}
