/**
 * `poste setup`: everything between nothing and a first mail, for the programs found on this machine. Each step looks
 * whether it is done already, and what it did is kept (setup-record.ts), so `--undo` takes back exactly that.
 */
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { createInterface } from 'node:readline/promises';
import { isDeepStrictEqual } from 'node:util';
import { Command, InvalidArgumentError, Option } from 'commander';
import { SETTLED_PROGRAMS, type SettledProgram, withoutServer, withServer } from '../../host/hooks/mcp-settings.ts';
import type { ServerCommand } from '../../host/hooks/server-command.ts';
import { defaultHostName, initialiseHost } from '../../host/init.ts';
import { unitPath } from '../../host/systemd-unit.ts';
import { isListening } from '../../lib/unix-socket.ts';
import { isSameName } from '../../host/core/address.ts';
import { isAgentName } from '../../protocol/names.ts';
import type { CommandContext } from '../lib/context.ts';
import { ask, requireAgentName, startInBackground } from '../lib/daemon-call.ts';
import { CommandFailed } from '../lib/exit.ts';
import { findProgram } from '../lib/find-program.ts';
import { jsonLine } from '../lib/format.ts';
import { hostFailure } from '../lib/host-paths.ts';
import { confirmed, isInteractive, terminalOf } from '../lib/input.ts';
import { homeFolder, ownPaths } from '../lib/own-paths.ts';
import {
  addHooks,
  allowTools,
  digestOf,
  type Edit,
  hookFile,
  plannedEdit,
  programNotices,
  removeHooks,
  serverOf,
  toolsFile,
  writeEdit,
} from '../lib/program-settings.ts';
import { addWritten, readWritten, removeWritten, type Written } from '../lib/setup-record.ts';
import { installUnit } from './daemon-unit.ts';
import { undoSetup } from './setup-undo.ts';

interface SetupFlags {
  agent: Map<SettledProgram, string>;
  program?: SettledProgram[];
  allowTools?: boolean;
  service: boolean;
  dryRun?: boolean;
  yes?: boolean;
  undo?: boolean;
  json?: boolean;
}

/** The command that starts each program, which is also the first name of its agent. */
const COMMAND_OF: Readonly<Record<SettledProgram, string>> = {
  'claude-code': 'claude',
  codex: 'codex',
  gemini: 'gemini',
  opencode: 'opencode',
};

const NOTES = `
Creates the host, starts the daemon (as a service where systemd is there), adds an agent for each program that is found
on PATH, and writes the mail tools and the hooks into the program's own settings, with a copy of what they were. It asks
first, and what is done already stays. Programs that run see it at their next start.

--undo takes back what setup did, and nothing else. The keys of this host stay, and so does an agent with mail in its
mailbox.

Examples:
  $ poste setup --dry-run
  $ poste setup --yes --agent claude-code=builder --agent codex=reviewer --allow-tools
  $ poste setup --undo`;

export function setupCommand(context: CommandContext): Command {
  return new Command('setup')
    .addOption(new Option('--program <name...>', 'only these programs').choices(SETTLED_PROGRAMS))
    .addOption(
      new Option('--agent <program=name>', 'the agent of a program (default: claude, codex, gemini, opencode)')
        .argParser(agentOfProgram)
        .default(new Map(), ''),
    )
    .option('--allow-tools', 'also let the programs use the mail tools without asking you')
    .option('--no-service', 'start the daemon without systemd')
    .option('--dry-run', 'only show what would change')
    .option('--yes', 'do not ask')
    .option('--undo', 'take back what setup did')
    .option('--json', 'print what was done as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (flags: SetupFlags) => (flags.undo ? undo(context, flags) : setup(context, flags)));
}

function agentOfProgram(text: string, before: Map<SettledProgram, string>): Map<SettledProgram, string> {
  const [word, name = ''] = text.split('=');
  const program = SETTLED_PROGRAMS.find((known) => known === word);
  if (program === undefined || !isAgentName(name)) {
    throw new InvalidArgumentError(`It must be one of ${SETTLED_PROGRAMS.join(', ')}, then = and an agent's name.`);
  }
  return new Map([...before, [program, name]]);
}

interface Step {
  /** What it does, as an imperative. */
  text: string;
  isDone: () => boolean | Promise<boolean>;
  /** Returns what there is to say. */
  run: () => Promise<string[]>;
}

async function setup(context: CommandContext, flags: SetupFlags): Promise<void> {
  const { dryRun = false, yes, json } = flags;
  const programs = programsHere(context, flags);
  const isAsking = !dryRun && !yes && !json && isInteractive(terminalOf(context));
  const chosen = isAsking ? await asked(context, programs, flags) : { ...flags, agents: agentsOf(programs, flags) };
  const steps = stepsOf(context, chosen.agents, chosen);
  const plan: { step: Step; isDone: boolean }[] = [];
  // All settings are read before anything is changed.
  for (const step of steps) plan.push({ step, isDone: await step.isDone() });
  const isNothing = plan.every(({ isDone }) => isDone);
  const say = (text: string): unknown => json || context.stdout.write(text);
  if (!isNothing) for (const { step, isDone } of plan) say(`${isDone ? 'already:' : 'to do:'} ${step.text}\n`);
  const states: { step: string; state: 'already' | 'planned' | 'done' }[] = [];
  const notices: string[] = [];
  if (!dryRun && !isNothing) {
    await confirmed(context, 'Do this?', { yes, stake: 'setup changes the settings of your programs' });
  }
  for (const { step, isDone } of plan) {
    if (!isDone && !dryRun) notices.push(...(await step.run()));
    const state = isDone ? 'already' : dryRun ? 'planned' : 'done';
    states.push({ step: step.text, state });
    if (!dryRun) say(`${state}: ${step.text}\n`);
  }
  if (!dryRun) for (const program of chosen.agents.keys()) notices.push(...programNotices(context, program));
  if (json) context.stdout.write(jsonLine({ dry_run: dryRun, steps: states, notices }));
  else if (!dryRun) say([...notices, ...nextOf([...chosen.agents.values()])].map((line) => `${line}\n`).join(''));
}

/** Throws `CommandFailed` when a program that was asked for, or every program, is absent. */
function programsHere(context: CommandContext, { program: wanted, agent }: SetupFlags): SettledProgram[] {
  const isHere = (name: SettledProgram): boolean => findProgram(COMMAND_OF[name], context.env['PATH']) !== undefined;
  const absent = [...(wanted ?? []), ...agent.keys()].find((name) => !isHere(name));
  if (absent !== undefined) {
    const flag = wanted?.includes(absent) ? `--program ${absent}` : `--agent ${absent}=${agent.get(absent)}`;
    const message = `there is no program ${COMMAND_OF[absent]} on PATH: install it, or leave out ${flag}`;
    throw new CommandFailed('notFound', 'NO_SUCH_PROGRAM', message);
  }
  const found = SETTLED_PROGRAMS.filter((name) => (wanted ? wanted.includes(name) : isHere(name)));
  if (found.length > 0) return found;
  const names = Object.values(COMMAND_OF).join(', ');
  throw new CommandFailed('notFound', 'NO_PROGRAM', `none of ${names} is on PATH: install one of them first`);
}

type Agents = ReadonlyMap<SettledProgram, string>;

function agentsOf(programs: readonly SettledProgram[], { agent }: SetupFlags): Agents {
  return new Map(programs.map((program) => [program, agent.get(program) ?? COMMAND_OF[program]]));
}

/** What the flags leave open, asked on the terminal. */
async function asked(
  context: CommandContext,
  programs: readonly SettledProgram[],
  flags: SetupFlags,
): Promise<SetupFlags & { agents: Agents }> {
  const { input, output } = terminalOf(context);
  const lines = createInterface({ input, output });
  const ended = new AbortController();
  lines.once('close', () => ended.abort());
  const question = async (text: string): Promise<string> => (await lines.question(text, ended)).trim();
  try {
    const agents = new Map<SettledProgram, string>();
    for (const [program, name] of agentsOf(programs, flags)) {
      const given = flags.agent.has(program) ? '' : await question(`The agent of ${program} [${name}]: `);
      const chosen = given === '' ? name : given;
      requireAgentName(chosen, `the agent of ${program}`);
      agents.set(program, chosen);
    }
    const allows = 'May the programs use the mail tools without asking you each time? [y/N] ';
    const allowed = flags.allowTools ?? /^y(?:es)?$/i.test(await question(allows));
    return { ...flags, allowTools: allowed, agents };
  } catch (error) {
    if (!ended.signal.aborted) throw error;
    throw new CommandFailed('interrupted', 'INTERRUPTED', 'nothing was done, because a question was not answered');
  } finally {
    lines.close();
  }
}

function stepsOf(context: CommandContext, agents: Agents, flags: SetupFlags): Step[] {
  const names = [...new Set(agents.values())];
  return [
    hostStep(context),
    daemonStep(context, flags),
    ...names.map((name) => agentStep(context, name)),
    ...[...agents].flatMap(([program, agent]) => programSteps(context, program, agent, flags)),
  ];
}

function hostStep(context: CommandContext): Step {
  const paths = ownPaths(context);
  const name = defaultHostName(hostname());
  return {
    text: `create this host in ${paths.dataFolder}`,
    isDone: () => existsSync(paths.store),
    async run() {
      await addWritten(context, { type: 'host' });
      await initialiseHost(paths, name, Date.now()).catch((error: unknown) => {
        throw hostFailure(error);
      });
      return [];
    },
  };
}

function daemonStep(context: CommandContext, { service }: SetupFlags): Step {
  const paths = ownPaths(context);
  const isService = service && findProgram('systemctl', context.env['PATH']) !== undefined;
  const inBackground = async (): Promise<void> => {
    await startInBackground(context, paths);
    const { pid } = await ask(context, 'status', {}, {});
    await addWritten(context, { type: 'daemon', pid });
  };
  return {
    text: isService ? 'install the daemon as a service, and start it' : 'start the daemon',
    isDone: () => isListening(paths.socket),
    async run() {
      if (!isService) {
        await inBackground();
        return ['The daemon runs until this machine stops; then the mail tools start it again.'];
      }
      try {
        const isThere = existsSync(unitPath(context.env, homeFolder(context)));
        if (!isThere) await addWritten(context, { type: 'service' });
        return (await installUnit(context, false)).notices;
      } catch (error) {
        if (!(error instanceof CommandFailed) || error.code !== 'SYSTEMCTL_FAILED') throw error;
        await inBackground();
        return [`The daemon runs without a service (${error.message}); the mail tools start it when it is needed.`];
      }
    },
  };
}

function agentStep(context: CommandContext, name: string): Step {
  return {
    text: `add the agent ${name}`,
    async isDone() {
      if (!(await isListening(ownPaths(context).socket))) return false;
      const { agents } = await ask(context, 'list-agents', {}, {});
      return agents.some((agent) => isSameName(agent.name, name));
    },
    async run() {
      // The daemon may not have been there when the steps were looked at.
      const { agents } = await ask(context, 'list-agents', {}, { start: true });
      if (agents.some((agent) => isSameName(agent.name, name))) return [];
      await addWritten(context, { type: 'agent', name });
      await ask(context, 'add-agent', { name }, {});
      return [];
    },
  };
}

function programSteps(
  context: CommandContext,
  program: SettledProgram,
  agent: string,
  { allowTools: isAllowed = false }: SetupFlags,
): Step[] {
  const server = serverOf(context, agent);
  const file = toolsFile(context, program);
  const tools = { path: file, change: withThisServer(context, program, file, server) };
  const hooks = addHooks(context, program, agent);
  const isHooked = plannedEdit({ path: hooks.path, change: removeHooks(program) }).isChange;
  const allowed = isAllowed ? allowTools(context, program) : undefined;
  // The tools are allowed where the server stands: read with it, as it will be then.
  const allowing = allowed?.path === file ? { ...allowed, change: over(tools, allowed) } : allowed;
  return [
    editStep(context, `add the mail tools of ${agent} to ${file}`, tools, { type: 'server', program, file, server }),
    editStep(
      context,
      `add the hooks of ${agent} to ${hooks.path}`,
      hooks,
      isHooked ? undefined : { type: 'hooks', program, file: hookFile(context, program) },
    ),
    ...(allowing
      ? [
          editStep(context, `allow the mail tools in ${allowing.path}`, allowing, {
            type: 'allowed',
            program,
            file: allowing.path,
          }),
        ]
      : []),
  ];
}

/** Adds the server, in place of one that an earlier setup wrote for another agent or another Node.js. */
function withThisServer(
  context: CommandContext,
  program: SettledProgram,
  file: string,
  server: ServerCommand,
): Edit['change'] {
  const earlier = readWritten(context).flatMap((entry) =>
    entry.type === 'server' && entry.file === file && !isDeepStrictEqual(entry.server, server) ? [entry.server] : [],
  );
  const add = withServer(program, server);
  return (text) => add(earlier.reduce((left, former) => withoutServer(program, former)(left), text));
}

function over(first: Edit, second: Edit): Edit['change'] {
  return (text) => second.change(first.change(text));
}

type EditWritten = Extract<Written, { file: string }>;

/** `entry` is missing where something of ours was there before. */
function editStep(context: CommandContext, text: string, edit: Edit, entry: EditWritten | undefined): Step {
  return {
    text,
    isDone: () => !plannedEdit(edit).isChange,
    async run() {
      const planned = plannedEdit(edit);
      if (entry) await addWritten(context, entry);
      const backup = await writeEdit(planned);
      if (entry) {
        await addWritten(context, { ...entry, edited: { copy: backup, sha256: digestOf(planned.text) } });
        await removeWritten(context, entry);
      }
      return backup === null ? [] : [`The previous ${planned.file.path} is ${backup}.`];
    },
  };
}

function nextOf([first = '', second = first]: readonly string[]): string[] {
  return [
    'Start the programs again. A first mail:',
    `  poste send --as ${first} --to ${second} --subject Hello --body 'Who are you?' --needs-reply`,
  ];
}

async function undo(context: CommandContext, { dryRun = false, yes, json }: SetupFlags): Promise<void> {
  const result = await undoSetup(context, dryRun, () =>
    confirmed(context, 'Take this back?', { yes, stake: 'undo changes the settings of your programs' }),
  );
  if (json) context.stdout.write(jsonLine(result));
}
