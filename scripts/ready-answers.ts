/**
 * The answers that `poste mcp` gives before it loads its server, as `dist/cli/mcp.json` has them: what the server
 * itself says to a client of each revision, with places for the id of the request and for the name of the agent.
 */
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/server';
import { DaemonClient } from '../src/host/api/client.ts';
import {
  AGENT_PLACE,
  ENVELOPE_METHODS,
  HANDSHAKE_METHODS,
  ID_PLACE,
  type ReadyAnswers,
} from '../src/host/mcp/first-answers.ts';
import { serveMcp } from '../src/host/mcp/serve.ts';
import { softwareVersion } from '../src/lib/package-root.ts';

/** A socket that no daemon has: the answers need none. */
const NO_SOCKET = '/nowhere/daemon.sock';
const CLIENT = { name: 'build', version: '0' };

/** A server as `poste mcp` has it, which takes lines and gives the next line that it writes. */
export function serverFor(agent: string, answered: ReadonlySet<string | number> = new Set()) {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const served = serveMcp({
    client: new DaemonClient(NO_SOCKET, '/nowhere/store'),
    agent,
    version: softwareVersion(),
    log: () => {},
    start: undefined,
    streams: { stdin, stdout },
    answered,
    inbox: undefined,
    parentPid: () => 1,
  });
  let text = '';
  stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  return {
    say: (line: string | Buffer): void => void stdin.write(Buffer.concat([Buffer.from(line), Buffer.from('\n')])),
    heard: async (): Promise<string> => {
      while (!text.includes('\n')) await once(stdout, 'data');
      const line = text.slice(0, text.indexOf('\n') + 1);
      text = text.slice(line.length);
      return line;
    },
    end: async (): Promise<void> => {
      stdin.end();
      await served.ended;
      await served.close();
    },
  };
}

/** The parameters of a method as a client of the revision sends them at least. */
export type ParamsOf = (method: string) => object | undefined;

export function handshakeParams(revision: string): ParamsOf {
  const handshake = { protocolVersion: revision, capabilities: {}, clientInfo: CLIENT };
  return (method) => (method === 'initialize' ? handshake : undefined);
}

export function envelopeParams(revision: string): ParamsOf {
  const meta = { protocolVersion: revision, clientCapabilities: {}, clientInfo: CLIENT };
  const named = Object.entries(meta).map(([name, value]) => [`io.modelcontextprotocol/${name}`, value]);
  return () => ({ _meta: Object.fromEntries(named) as object });
}

/** Returns what the server answers to a client that sends these, one after another. */
async function linesOf(methods: readonly string[], paramsOf: ParamsOf): Promise<Record<string, string>> {
  const server = serverFor(AGENT_PLACE);
  const lines: Record<string, string> = {};
  for (const method of methods) {
    server.say(JSON.stringify({ jsonrpc: '2.0', id: JSON.parse(ID_PLACE), method, params: paramsOf(method) }));
    lines[method] = await server.heard();
  }
  await server.end();
  return lines;
}

export async function readyAnswers(): Promise<ReadyAnswers> {
  const handshakes = [...SUPPORTED_PROTOCOL_VERSIONS];
  const ready: ReadyAnswers = { handshakes, envelopes: [], answers: {}, lines: [] };
  const add = (revision: string, lines: Record<string, string>): void => {
    const places = Object.entries(lines).map(([method, line]) => [method, placeOf(line, ready.lines)]);
    ready.answers[revision] = Object.fromEntries(places) as Record<string, number>;
  };
  for (const revision of handshakes) add(revision, await linesOf(HANDSHAKE_METHODS, handshakeParams(revision)));
  ready.envelopes = await envelopesOfServer();
  for (const revision of ready.envelopes) add(revision, await linesOf(ENVELOPE_METHODS, envelopeParams(revision)));
  return ready;
}

/** The server names them when it refuses one that is too new. */
async function envelopesOfServer(): Promise<string[]> {
  const { 'server/discover': refusal = '' } = await linesOf(['server/discover'], envelopeParams('9999-12-31'));
  return (JSON.parse(refusal) as { error: { data: { supported: string[] } } }).error.data.supported;
}

function placeOf(line: string, lines: string[]): number {
  if (line.split(ID_PLACE).length !== 2) throw new Error(`an answer names its request not once: ${line}`);
  const known = lines.indexOf(line);
  return known === -1 ? lines.push(line) - 1 : known;
}
