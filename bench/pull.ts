/** Pulls of full pages: every connection pulls the first page of its own target's queue again and again. */
import { RelayClient } from '../src/host/relay/relay-client.ts';
import { Connection } from './connection.ts';
import { type Timing, timed } from './figures.ts';
import { type PushTarget, formAt, targetName } from './push.ts';
import { type Form, headersOf, namedSigner, requestBytes } from './work.ts';

/** At the end of a page in JSON, and of one in the binary form. */
const MORE = /more(?:":true|\xc3)/;

export interface PullLoad {
  relay: PushTarget;
  connections: number;
  pagesPerConnection: number;
  /** JSON when absent. */
  form?: Form;
}

export interface Pulled extends Timing {
  /** The bytes of one page as it came over HTTP. */
  pageBytes: number;
}

export async function pull({ relay, connections, pagesPerConnection, form }: PullLoad): Promise<Pulled> {
  const headers = headersOf(await formAt(relay, form ?? 'JSON'));
  const lanes: Buffer[][] = [];
  const open: Connection[] = [];
  for (let lane = 0; lane < connections; lane++) {
    const request = signedRequest(relay, targetName(lane), 'GET', '/v2/relay/items?limit=500', { headers });
    lanes.push(Array.from({ length: pagesPerConnection }, () => request));
    open.push(await Connection.open(relay.port));
  }
  let pageBytes = 0;
  const timing = await timed(lanes, async (request, lane) => {
    const reply = await open[lane]!.send(request);
    if (reply.status !== 200 || !MORE.test(reply.end))
      throw new Error(`a pull was answered ${reply.status} ${reply.start}`);
    pageBytes = reply.bytes;
  });
  for (const connection of open) connection.close();
  return { ...timing, pageBytes };
}

/** Acks all that waits for a host. */
export async function ackAll(relay: PushTarget, hostName: string): Promise<void> {
  const connection = await Connection.open(relay.port);
  const { start } = await connection.send(signedRequest(relay, hostName, 'GET', '/v2/relay/items?limit=1'));
  const [, epoch = ''] = /"epoch":"([^"]+)"/.exec(start) ?? [];
  await ack(connection, relay, hostName, { epoch, through: Number(/"head_seq":(\d+)/.exec(start)?.[1]) });
  connection.close();
}

export async function ack(
  connection: Connection,
  relay: PushTarget,
  hostName: string,
  acked: { epoch: string; through: number },
): Promise<void> {
  const request = signedRequest(relay, hostName, 'POST', '/v2/relay/ack', { body: JSON.stringify(acked) });
  const reply = await connection.send(request);
  if (reply.status !== 200) throw new Error(`an ack was answered ${reply.status} ${reply.start}`);
}

/** A request of the host of that name, signed now, as it goes over the wire. */
export function signedRequest(
  { port, relayPubkey }: PushTarget,
  hostName: string,
  method: string,
  target: string,
  { body = '', headers = {} }: { body?: string; headers?: Record<string, string> } = {},
): Buffer {
  const signer = namedSigner(hostName);
  const options = { url: `http://127.0.0.1:${port}`, signer, hostName, nowMs: () => Date.now() };
  const hop = new RelayClient(options, relayPubkey).hopHeaders(method, target, body);
  return requestBytes(method, target, { ...hop, ...headers }, Buffer.from(body));
}
