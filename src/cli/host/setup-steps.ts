/** The steps of `poste setup`: each looks whether it is done already, and does what it is for. */
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { isSameServer, mailToolsOf, type ServerCommand } from '../../host/hooks/mcp-settings.ts';
import { type HookedProgram, SETTINGS_OF, type SettledProgram } from '../../host/hooks/settled-programs.ts';
import { defaultHostName, initialiseHost } from '../../host/init.ts';
import { ownPaths } from '../../host/base/paths.ts';
import { isListening } from '../../lib/unix-socket.ts';
import { isSameName } from '../../host/core/address.ts';
import { printable } from '../../protocol/printable.ts';
import type { CommandContext } from '../lib/context.ts';
import { ask } from '../lib/daemon-call.ts';
import { startInBackground, waitForService } from '../lib/daemon-start.ts';
import { CommandFailed } from '../lib/exit.ts';
import { findProgram } from '../lib/find-program.ts';
import { formatLines } from '../lib/format.ts';
import { hostFailure } from '../lib/host-paths.ts';
import {
  addHooks,
  type AllowEdit,
  allowTools,
  digestOf,
  type Edit,
  hookFile,
  isHooked,
  plannedEdit,
  serverOf,
  serverOfProgram,
  settingsText,
  shownServer,
  toolsFile,
  writeEdit,
} from '../lib/program-settings.ts';
import { addWritten, readWritten, removeWritten, type Written } from '../lib/setup-record.ts';
import { installService } from './daemon-service.ts';
import { otherHost, serviceManager } from '../lib/service-manager.ts';

/** What a step finds: to be done, done already, or that somebody else wrote what stays there. */
export interface Look {
  state: 'planned' | 'already' | 'kept';
  /** What is there, when that is not what the step would do. */
  step?: string;
  why?: string;
  notice?: string;
}

interface Ran {
  /** Its deed, when that is not its text. */
  did?: string;
  /** Sentences for the user. */
  notices: string[];
  /** The file that it changed, and the copy of what that was; null when there was none. */
  file?: { path: string; copy: string | null };
}

export interface Step {
  /** Its purpose, as an imperative. */
  text: string;
  /** The program whose settings it changes. */
  program?: SettledProgram;
  look: () => Look | Promise<Look>;
  run: () => Promise<Ran>;
}

/** A step as it is shown, with what became of it. */
export interface ShownStep<State extends string> {
  step: string;
  state: State | 'planned';
  why?: string;
  /** The copies of a file that its owner changed after setup, from before each change of Poste's. */
  copies?: string[];
}

export function stepText({ step, state, why, copies = [] }: ShownStep<string>, planned: string): string {
  const line = `${state === 'planned' ? planned : state}: ${step}${why === undefined ? '' : ` (${why})`}`;
  return formatLines([line, ...copies.map((copy) => `  a copy of what it was: ${copy}`)]);
}

export type Agents = ReadonlyMap<SettledProgram, string>;

interface Wishes {
  allowTools?: boolean;
  service: boolean;
}

const OTHERS_TOOLS = '--allow-tools would allow the tools of that other MCP server';
export const NEEDED: Look = { state: 'planned' };
export const ALREADY: Look = { state: 'already' };
const START = 'start the daemon';
const BY_HAND =
  'No service starts the daemon: it runs until you end it or this machine stops. A command of Poste or a mail tool ' +
  'that needs it starts it again.';

export function stepsOf(context: CommandContext, agents: Agents, wishes: Wishes): Step[] {
  const names = [...new Set(agents.values())];
  return [
    hostStep(context),
    daemonStep(context, wishes),
    ...names.map((name) => agentStep(context, { type: 'agent', name })),
    ...[...agents].flatMap(([program, agent]) => programSteps(context, program, agent, wishes)),
  ];
}

function hostStep(context: CommandContext): Step {
  const paths = ownPaths(context);
  const name = defaultHostName(hostname());
  return {
    text: `create this host in ${paths.dataFolder}`,
    look: () => (existsSync(paths.store) ? ALREADY : NEEDED),
    async run() {
      await addWritten(context, { type: 'host' });
      await initialiseHost(paths, name, Date.now()).catch((error: unknown) => {
        throw hostFailure(error);
      });
      return { notices: [] };
    },
  };
}

function daemonStep(context: CommandContext, { service }: Wishes): Step {
  const paths = ownPaths(context);
  const manager = serviceManager(context);
  const other = otherHost(context);
  const isManaged = findProgram(manager.program, context.env['PATH']) !== undefined;
  const isService = service && isManaged && other === undefined;
  const isUnitThere = (): boolean => existsSync(manager.file);
  return {
    text: isService ? 'install the daemon as a service, and start it' : START,
    async look() {
      if (!(await isListening(paths.socket))) return NEEDED;
      if (!isService || isUnitThere()) return { ...ALREADY, step: START };
      const notice =
        'The daemon that runs is no service. To make it one, stop it and run poste daemon install: ' +
        'then it starts with your sessions.';
      return { ...ALREADY, step: START, notice };
    },
    async run() {
      if (!isService) {
        await runInBackground(context);
        const why = isManaged
          ? `The service is of another host, in ${other}.`
          : `There is no ${manager.program} on this machine.`;
        return { notices: [service ? `${why} ${BY_HAND}` : BY_HAND] };
      }
      const isThere = isUnitThere();
      if (!isThere) await addWritten(context, { type: 'service' });
      try {
        const { notices, unit, backup } = await installService(context, false);
        await waitForService(paths);
        return { notices, file: { path: unit, copy: backup } };
      } catch (error) {
        if (!(error instanceof CommandFailed) || error.code !== 'SYSTEMCTL_FAILED') throw error;
        if (!isThere) await removeWritten(context, { type: 'service' });
        await runInBackground(context);
        return { did: START, notices: [`${manager.name} refused the service: ${error.message}. ${BY_HAND}`] };
      }
    },
  };
}

async function runInBackground(context: CommandContext): Promise<void> {
  await addWritten(context, { type: 'starting', sinceMs: Date.now() });
  await startInBackground(context, ownPaths(context));
  const { pid } = await ask(context, 'status', {}, {});
  await addWritten(context, { type: 'daemon', pid });
  // The attempts before are over too: this daemon serves.
  for (const one of readWritten(context)) if (one.type === 'starting') await removeWritten(context, one);
}

export function agentStep(context: CommandContext, entry: Extract<Written, { type: 'agent' }>): Step {
  const { name } = entry;
  return {
    text: `add the agent ${name}`,
    async look() {
      if (!(await isListening(ownPaths(context).socket))) return NEEDED;
      const { agents } = await ask(context, 'list-agents', {}, {});
      return agents.some((agent) => isSameName(agent.name, name)) ? ALREADY : NEEDED;
    },
    async run() {
      await addWritten(context, entry);
      await ask(context, 'add-agent', { name }, { start: true });
      return { notices: [] };
    },
  };
}

function programSteps(
  context: CommandContext,
  program: SettledProgram,
  agent: string,
  { allowTools: isAllowed = false }: Wishes,
): Step[] {
  const server = serverOf(context, agent, program);
  const file = toolsFile(context, program);
  const tools: Edit = {
    path: file,
    change: (text) => SETTINGS_OF[program].addServer(server, earlierServers(context, file))(text),
  };
  const allowed = isAllowed ? allowTools(context, program) : undefined;
  const look = (): Look => serverLook(context, { program, file, agent, server }, tools);
  return [
    {
      ...editStep(context, `add the mail tools of ${agent} to ${file}`, tools, () => {
        return { type: 'server', program, file, server };
      }),
      program,
      look,
    },
    ...(isHooked(program) ? [hookStep(context, program, agent)] : []),
    ...(allowed ? [allowStep(context, program, allowed, { tools, look })] : []),
  ];
}

function hookStep(context: CommandContext, program: HookedProgram, agent: string): Step {
  const hooks = addHooks(context, program, { defaultAgent: agent });
  const text = `add the hooks of ${agent} to ${hooks.path}`;
  return { ...editStep(context, text, hooks, () => hooksEntry(context, program)), program };
}

/** The entry for the hooks: those of an earlier setup are its own, and an undo leaves those of others. */
function hooksEntry(context: CommandContext, program: HookedProgram): EditWritten {
  const file = hookFile(context, program);
  const isHooked = plannedEdit({ path: file, change: SETTINGS_OF[program].hooks.remove }).isChange;
  const isOwn = readWritten(context).some((one) => one.type === 'hooks' && one.file === file && !one.others);
  return { type: 'hooks', program, file, ...(isHooked && !isOwn && { others: true }) };
}

function allowStep(
  context: CommandContext,
  program: SettledProgram,
  allowed: AllowEdit,
  { tools, look }: { tools: Edit; look: () => Look },
): Step {
  const file = allowed.path;
  // The tools are allowed where the server stands: read with it, as it will be then.
  const isBeside = file === tools.path;
  const change: Edit['change'] = isBeside ? (text) => allowed.change(tools.change(text)) : allowed.change;
  const step = editStep(context, `allow the mail tools in ${file}`, { path: file, change }, () => {
    const before = settingsText(file, allowed.rulesIn);
    return { type: 'allowed', program, file, ...(before.length > 0 && { before }) };
  });
  return {
    ...step,
    program,
    look() {
      if (look().state !== 'kept') return step.look();
      return { state: 'kept', step: `the rules in ${file}`, why: OTHERS_TOOLS };
    },
  };
}

/** The servers that an earlier setup wrote for another agent, or another Node.js. */
function earlierServers(context: CommandContext, file: string): ServerCommand[] {
  return readWritten(context).flatMap((entry) =>
    entry.type === 'server' && entry.file === file ? [entry.server] : [],
  );
}

interface Wanted {
  program: SettledProgram;
  file: string;
  agent: string;
  server: ServerCommand;
}

function serverLook(context: CommandContext, { program, file, agent, server }: Wanted, tools: Edit): Look {
  const there = serverOfProgram(file, program);
  if (there.type === 'absent') return NEEDED;
  const repair = 'remove it there and run poste setup again';
  const mailTools = there.type === 'command' ? mailToolsOf(there.server) : undefined;
  if (there.type === 'command') {
    // One of an earlier setup may lack what this version writes besides.
    const isEarlier = earlierServers(context, file).some((one) => isSameServer(there.server, one));
    if (isEarlier) return plannedEdit(tools).isChange ? NEEDED : ALREADY;
    if (isSameServer(there.server, server)) return ALREADY;
    if (mailTools?.agent !== undefined && isSameName(mailTools.agent, agent)) return ALREADY;
  }
  const kept = (why: string): Look => ({ state: 'kept', step: `the MCP server poste in ${file}`, why });
  if (!mailTools) return kept(`it is another one, ${shownServer(there)}: ${repair}`);
  if (mailTools.agent === undefined)
    return kept(`it has the mail tools of the agent that POSTE_AGENT names: ${repair}`);
  const other = printable(mailTools.agent);
  return kept(`it has the mail tools of ${other}: leave out --agent to use that agent, or ${repair}`);
}

type EditWritten = Extract<Written, { type: 'server' | 'hooks' | 'allowed' }>;

function editStep(context: CommandContext, text: string, edit: Edit, entryOf: () => EditWritten): Step {
  return {
    text,
    look: () => (plannedEdit(edit).isChange ? NEEDED : ALREADY),
    async run() {
      const entry = entryOf();
      const planned = plannedEdit(edit);
      await addWritten(context, entry);
      const copy = await writeEdit(planned);
      await addWritten(context, { ...entry, edited: { copy, sha256: digestOf(planned.text) } });
      await removeWritten(context, entry);
      return { notices: [], file: { path: planned.file.path, copy } };
    },
  };
}
