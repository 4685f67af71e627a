/**
 * Measures how long a command of `poste` takes beside a Node.js that does nothing: every hook of an agent waits for it,
 * and the first turn of an agent for its tools.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { posteHome } from '../test/support/poste-home.ts';
import type { Environment } from '../test/support/poste-process.ts';
import { withOwnEnd } from '../test/support/test-end.ts';
import { ofBuild } from './build.ts';
import { quantile } from './figures.ts';
import { daemonOf } from './mcp-mail.ts';
import { type Figure, less } from './report.ts';

const STARTS = 15;
const EVENT = JSON.stringify({ session_id: 'bench', hook_event_name: 'UserPromptSubmit', cwd: '/', prompt: 'go' });
const AGENT = 'bench';
const CLIENT = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: AGENT, version: '0' } };
/** A client that leaves when it knows the tools. */
const LISTING = [
  { id: 0, method: 'initialize', params: CLIENT },
  { method: 'notifications/initialized' },
  { id: 1, method: 'tools/list' },
]
  .map((message) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  .join('');

/** By turns, so that what the machine does beside falls on all of them. */
export function starts(): Promise<Figure[]> {
  return withOwnEnd(async () => {
    const home = await posteHome('bench');
    await daemonOf(home);
    await home.json('agent', 'add', AGENT);
    const commands: Record<string, { args: string[]; input?: string }> = {
      'bare node': { args: ['-e', '0'] },
      'poste --version': { args: poste('--version') },
      'poste --help': { args: poste('--help') },
      'poste a hook, with a daemon': { args: poste('hooks', 'run', 'claude-code', '--agent', AGENT), input: EVENT },
      'poste mcp, until the tools are listed': { args: poste('mcp', '--agent', AGENT, '--start'), input: LISTING },
      'poste inbox, with a daemon': { args: poste('inbox', '--as', AGENT, '--json') },
    };
    const ms = new Map(Object.keys(commands).map((name): [string, number[]] => [name, []]));
    for (let start = 0; start < STARTS; start++)
      for (const [name, { args, input }] of Object.entries(commands))
        ms.get(name)?.push(await took(args, home.environment, input));
    const medians = [...ms].map(([name, all]) => [name, quantile(all, 0.5)] as const);
    const node = medians[0]?.[1] ?? Number.NaN;
    return [
      less('bare node', 'ms', node),
      ...medians
        .slice(1)
        .flatMap(([name, median]) => [less(name, 'ms', median), less(`${name} / node`, 'ratio', median / node, 1.5)]),
    ];
  });
}

function poste(...args: string[]): string[] {
  return [ofBuild('dist/cli/main.js'), ...args];
}

async function took(args: readonly string[], environment: Environment, input = ''): Promise<number> {
  const startedMs = performance.now();
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env['PATH'], ...environment },
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  // A program that reads nothing may have ended.
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${args.slice(1).join(' ')} ended with exit code ${code}`);
  return performance.now() - startedMs;
}
