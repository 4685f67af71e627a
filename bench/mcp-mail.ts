/**
 * How long an agent waits for `mail_send`, through `poste mcp` at a daemon: the first calls of both, the first calls of
 * another `poste mcp` at that daemon, and those that follow, with the processor time of both processes.
 */
import { Client } from '@modelcontextprotocol/client';
import { mcpProcess, versionNegotiationOf } from '../test/support/mcp-client.ts';
import { type PosteHome, pairHomes, posteHome } from '../test/support/poste-home.ts';
import { poste } from '../test/support/poste-process.ts';
import { childrenOf } from '../test/support/process-tree.ts';
import { withOwnEnd } from '../test/support/test-end.ts';
import { ofBuild } from './build.ts';
import { type Cost, costOf } from './cpu.ts';
import { NAMED_THREADS } from './cpu-seconds.ts';
import { quantile } from './figures.ts';
import { BODY_BYTES } from './mail-host.ts';
import { type Figure, less } from './report.ts';

/** An agent sends a few messages in a session. */
const FIRST = 20;
const MORE = 200;
const AGENT = 'agent';
const OTHER = 'other';
const MAIL = { subject: 'bench', body: 'x'.repeat(BODY_BYTES) };

export function mcpMail(): Promise<Figure[]> {
  return withOwnEnd(async () => {
    const [here, there] = [await posteHome('here'), await posteHome('there')];
    const [daemon] = [await daemonOf(here), await daemonOf(there)];
    for (const home of [here, there]) await home.json('agent', 'add', OTHER);
    await here.json('agent', 'add', AGENT);
    const { code, stderr } = await pairHomes(here, there);
    if (code !== 0) throw new Error(`the hosts are not paired: ${stderr}`);
    return [
      ...(await sends(here, daemon, OTHER, { name: 'to an agent of this host', goal: 4 })),
      ...(await sends(here, daemon, `${OTHER}@there`, { name: 'to a paired host', goal: 7 })),
    ];
  });
}

/** Starts the daemon of a home; resolves with its process id. */
export async function daemonOf(home: PosteHome): Promise<number> {
  const environment = { ...home.environment, ...NAMED_THREADS };
  const args = ['daemon', '--json', '--log-level', 'warn'];
  const daemon = poste(args, environment, { main: ofBuild('dist/cli/main.js') });
  await daemon.printed('}\n');
  return daemon.pid;
}

async function sends(
  home: PosteHome,
  daemon: number,
  to: string,
  aim: { name: string; goal: number },
): Promise<Figure[]> {
  const { name, goal } = aim;
  const first = await connected(home);
  const coldMs = await first.send(to, FIRST);
  const costs: [of: string, cost: Cost][] = [
    ['poste mcp', costOf(first.pid)],
    ['the daemon', costOf(daemon)],
  ];
  for (const [, cost] of costs) cost.begin();
  const warmMs = await first.send(to, MORE);
  const cpu = costs.flatMap(([of, cost]) => cost.figures(`${name}, a message, ${of}`, MORE));
  await first.close();
  const second = await connected(home);
  const anotherMs = await second.send(to, FIRST);
  await second.close();
  return [
    ...tookMs(`${name}: the first ${FIRST}`, coldMs, goal),
    ...tookMs(`${name}: the first ${FIRST} of another poste mcp`, anotherMs),
    ...tookMs(`${name}: ${MORE} more`, warmMs),
    ...cpu,
  ];
}

interface Mcp {
  pid: number;
  /** Resolves with the milliseconds of each call. */
  send: (to: string, messages: number) => Promise<number[]>;
  close: () => Promise<void>;
}

async function connected(home: PosteHome): Promise<Mcp> {
  const before = new Set(childrenOf(process.pid));
  const environment = { ...home.environment, ...NAMED_THREADS };
  const server = mcpProcess(environment, ['--agent', AGENT], ofBuild('dist/cli/main.js'));
  const pid = childrenOf(process.pid).find((child) => !before.has(child)) ?? 0;
  const client = new Client({ name: 'bench', version: '0' }, versionNegotiationOf('2025-11-25'));
  await client.connect(server);
  await client.listTools();
  const send = async (to: string, messages: number): Promise<number[]> => {
    const tookMs: number[] = [];
    for (let sent = 0; sent < messages; sent++) {
      const startedMs = performance.now();
      const { isError } = await client.callTool({ name: 'mail_send', arguments: { to: [to], ...MAIL } });
      tookMs.push(performance.now() - startedMs);
      if (isError === true) throw new Error('mail_send was refused');
    }
    return tookMs;
  };
  return { pid, send, close: () => client.close() };
}

function tookMs(name: string, ms: readonly number[], goal?: number): Figure[] {
  return [less(`${name}, p50`, 'ms', quantile(ms, 0.5), goal), less(`${name}, longest`, 'ms', Math.max(...ms))];
}
