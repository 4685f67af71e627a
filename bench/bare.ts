/** A bare server that sends constant bytes: what the HTTP library itself does with a reply of that size. */
import { Connection } from './connection.ts';
import { type Timing, timed } from './figures.ts';
import { requestBytes } from './work.ts';
import { fork } from 'node:child_process';
import { listenNode } from '../src/http/server-node.ts';
import { uwsHere } from '../src/relay/http/uws-binding.ts';
import { listenUws } from '../src/relay/http/uws-connection.ts';

export interface BareLoad {
  connections: number;
  repliesPerConnection: number;
  replyBytes: number;
}

export async function bare({ connections, repliesPerConnection, replyBytes }: BareLoad): Promise<Timing> {
  const child = fork(new URL(import.meta.url), [String(replyBytes)], { execArgv: process.execArgv });
  const port = await new Promise<number>((resolve) => {
    child.once('message', (message) => resolve(message as number));
  });
  const open = await Promise.all(Array.from({ length: connections }, () => Connection.open(port)));
  const request = requestBytes('GET', '/', {}, Buffer.alloc(0));
  const lanes = open.map(() => Array.from({ length: repliesPerConnection }, () => request));
  const timing = await timed(lanes, async (one, lane) => {
    const reply = await open[lane]!.send(one);
    if (reply.bytes !== replyBytes) throw new Error(`a reply had ${reply.bytes} bytes`);
  });
  for (const connection of open) connection.close();
  child.kill();
  return timing;
}

if (process.send) {
  const body = Buffer.alloc(Number(process.argv[2]), 0x61);
  const { binding } = uwsHere();
  const listen = binding ? listenUws(binding) : listenNode;
  const server = await listen({
    host: '127.0.0.1',
    port: 0,
    handler: (exchange) => exchange.reply({ status: 200, headers: {}, body }),
  });
  process.send(server.port);
}
