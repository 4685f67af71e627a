/**
 * `poste mcp` as programs start it. A client that begins a turn waits for the tools only so long, so `main.ts` comes
 * here without the command line, and what clients begin with is answered before the server is loaded.
 */
import { readFileSync } from 'node:fs';
import { OWNER_NAME } from '../../host/core/address.ts';
import { daemonSocketFault, ownPaths } from '../../host/base/paths.ts';
import {
  type AgentChoice,
  chosenAgent,
  type ProjectAgents,
  readProjectAgents,
} from '../../host/base/project-agents.ts';
import { DEFAULT_AGENT } from '../../host/hooks/programs.ts';
import { attempt } from '../../lib/caught.ts';
import type { Environment } from '../../lib/user-folders.ts';
import { FirstAnswers, type ReadyAnswers } from '../../host/mcp/first-answers.ts';
import { isAgentName } from '../../protocol/names.ts';
import type { CommandContext } from '../lib/context.ts';
import { EXIT, stopSignal } from '../lib/exit.ts';
import { mayStart } from '../lib/start-choice.ts';
import type { MailToolsOptions, serveMailTools as ServeMailTools } from './serve-mail-tools.ts';

type McpRun = Pick<MailToolsOptions, 'agent' | 'start' | 'wakeUnattended'>;

/** The call as programs have it in their settings. Any other is `undefined`, and for the command line. */
export function mcpRunOf([command, ...flags]: readonly string[], environment: Environment): McpRun | undefined {
  const choice: AgentChoice = { environment, folder: () => process.cwd() };
  const run = { start: mayStart(environment), wakeUnattended: false };
  if (command !== 'mcp') return undefined;
  for (let at = 0; at < flags.length; at++) {
    if (flags[at] === '--agent') choice.given = flags[++at] ?? '';
    else if (flags[at] === '--program') choice.program = flags[++at];
    else if (flags[at] === DEFAULT_AGENT) choice.byDefault = flags[++at];
    else if (flags[at] === '--start') run.start = true;
    else if (flags[at] === '--no-start') run.start = false;
    else if (flags[at] === '--wake-unattended') run.wakeUnattended = true;
    else return undefined;
  }
  const projects = (): ProjectAgents => readProjectAgents(ownPaths({ env: environment }).dataFolder);
  const agent = attempt(() => chosenAgent(choice, projects)) ?? '';
  return isAgentName(agent) && agent.toLowerCase() !== OWNER_NAME ? { ...run, agent } : undefined;
}

/** `undefined` where there are none, as beside the sources. */
export function readyAnswers(file: string): ReadyAnswers | undefined {
  return attempt(() => JSON.parse(readFileSync(file, 'utf8')) as ReadyAnswers);
}

/** False where the command line says what is wrong. */
export async function runAsMcp(context: CommandContext, run: McpRun, ready: ReadyAnswers): Promise<boolean> {
  const paths = attempt(() => ownPaths(context));
  if (!paths || daemonSocketFault(paths) !== undefined) return false;
  const signalled = stopSignal(context);
  const first = new FirstAnswers(ready, run.agent);
  const begun = await begunInput(context, first, signalled);
  if (begun === undefined) return true;
  context.stderr.on('error', () => {});
  const serve = await loadServer(context);
  if (!serve) return true;
  // The server reads all of it, in the order in which it came.
  if (begun.length > 0) context.stdin.unshift(begun);
  await serve(context, { ...run, paths, signalled, answered: first.answered });
  return true;
}

/** The server. `undefined` when it cannot be loaded, as while another version is installed: then the process ends. */
async function loadServer({ stderr, abort }: CommandContext): Promise<typeof ServeMailTools | undefined> {
  try {
    return (await import('./serve-mail-tools.ts')).serveMailTools;
  } catch (error) {
    const { code, name } = error as NodeJS.ErrnoException;
    const text = `the mail tools cannot be loaded (${code ?? name}): install Poste again, and restart your program`;
    stderr.write(`poste mcp: ${text}.\n`, () => abort(EXIT.failure));
    return undefined;
  }
}

/** A client that knows the tools has a moment to ask for what else it begins with. */
const LISTED_MS = 50;
/** The session of an agent begins by then, also with a client that says nothing. */
const SILENT_MS = 1000;
/** No client begins with more: a longer line, or ever more lines, are for the server. */
const BEGUN_BYTES_MAX = 1 << 16;
const LINE_END = 0x0a;

/**
 * Answers what can be answered. Resolves with all that came once the server must be there; `undefined` when the client
 * has gone before, or a signal came. Standard input stands still then.
 */
function begunInput(
  { stdin, stdout }: CommandContext,
  first: FirstAnswers,
  signalled: Promise<unknown>,
): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    let rest: Buffer = Buffer.alloc(0);
    let isOver = false;
    const finish = (begun?: Buffer): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      stdin.off('data', take).off('end', leave).off('close', leave).pause();
      resolve(begun);
    };
    const leave = (): void => finish();
    const serve = (): void => finish(Buffer.concat(chunks));
    let timer = setTimeout(serve, SILENT_MS);
    const take = (chunk: Buffer): void => {
      chunks.push(chunk);
      bytes += chunk.length;
      const { answers, left, isForServer } = answersTo(Buffer.concat([rest, chunk]), first);
      rest = left;
      if (answers !== '') stdout.write(answers);
      clearTimeout(timer);
      if (isForServer || bytes > BEGUN_BYTES_MAX) serve();
      else timer = setTimeout(serve, first.isListed ? LISTED_MS : SILENT_MS);
    };
    // They stay: an error of what was written last, or of reading, would end the process.
    stdout.on('error', leave);
    stdin.on('error', leave);
    stdin.on('data', take).on('end', leave).on('close', leave);
    void signalled.then(leave);
  });
}

function answersTo(bytes: Buffer, first: FirstAnswers): { answers: string; left: Buffer; isForServer: boolean } {
  let answers = '';
  let from = 0;
  for (let end = bytes.indexOf(LINE_END); end !== -1; end = bytes.indexOf(LINE_END, from)) {
    const answer = first.answerTo(bytes.subarray(from, end));
    if (answer === undefined) return { answers, left: bytes.subarray(from), isForServer: true };
    from = end + 1;
    answers += answer;
  }
  return { answers, left: bytes.subarray(from), isForServer: false };
}
