/** TLS before a relay on this machine, with a certificate of a private authority. */
import { request } from 'node:http';
import { createServer } from 'node:https';
import { passedOn } from '../../support/flaky-proxy.ts';
import { SERVER } from '../../support/test-authority.ts';
import { listeningPort } from '../../support/listening-port.ts';

/** For one test. Answers the address; `port` is where the relay listens. */
export async function tlsBefore(port: () => number): Promise<string> {
  const server = createServer(SERVER, (incoming, outgoing) => {
    const { method, url, headers } = incoming;
    const passed = request({ host: '127.0.0.1', port: port(), method, path: url, headers, agent: false });
    passedOn.add(passed);
    passed.on('response', (answer) => {
      outgoing.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(outgoing);
    });
    passed.on('error', () => outgoing.destroy());
    outgoing.on('close', () => passed.destroy());
    incoming.pipe(passed);
  });
  return `https://127.0.0.1:${await listeningPort(server)}`;
}
