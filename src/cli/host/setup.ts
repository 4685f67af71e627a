/**
 * `poste setup`: everything between nothing and a first mail, for the programs found on this machine. Each step looks
 * whether it is done already, and what it did is kept (setup-record.ts), so `--undo` takes back exactly that.
 */
import { createInterface } from 'node:readline/promises';
import { type Command, InvalidArgumentError } from 'commander';
import { foldName, OWNER_NAME } from '../../host/core/address.ts';
import { RESERVED_NAMES } from '../../host/core/rows.ts';
import { mailToolsOf, plainServer } from '../../host/hooks/mcp-settings.ts';
import { SETTINGS_OF, SETTLED_PROGRAMS, type SettledProgram } from '../../host/hooks/settled-programs.ts';
import { daemonSocketFault, ownPaths } from '../../host/base/paths.ts';
import { caught, nothing } from '../../lib/caught.ts';
import { isAgentName } from '../../protocol/names.ts';
import { CommandDraft, type FlagsOf } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed, usageFailure } from '../lib/exit.ts';
import { findProgram } from '../lib/find-program.ts';
import { formatLines, JSON_FLAG, jsonLine } from '../lib/format.ts';
import { confirmed, isInteractive } from '../lib/input.ts';
import { programNotices, serverOf, serverOfProgram, toolsFile } from '../lib/program-settings.ts';
import { readWritten, withSetupLock } from '../lib/setup-record.ts';
import { must } from '../lib/values.ts';
import { notesSteps, projectAgentsOf, projectFolder, projectSteps } from './setup-project.ts';
import { type Agents, type Look, type ShownStep, type Step, stepsOf, stepText } from './setup-steps.ts';
import { undoSetup } from './setup-undo.ts';

const NOTES = `
Creates the host, starts the daemon (as a service where systemd is there), adds an agent for each program that is found
on PATH, and writes the mail tools and the hooks into the program's own settings, with a copy of what they were. Copilot
CLI, Cline and Crush get the mail tools alone. It asks first, and what is done already stays. So does an MCP server
named poste that setup did not write. Programs that run see it at their next start.

For any other program --print prints the entry of the mail tools, to paste into its settings, and changes nothing.

Several checkouts on one machine have an address each: --project gives the programs agents of their own in the checkout
that it is run in, codex-shop in a folder shop; --agent names them then. Elsewhere they keep the others. The --agent of
poste mcp or of a hook goes before POSTE_AGENT, that before the agent of the project, and that before the one of the
user. Nothing of this is written into the checkout; --notes is, between two markers.

--undo takes back what setup did, and nothing else; with --project only what it did for that folder. The keys of this
host stay, and so does an agent that has mail, received or sent, and an entry that you changed since.

Examples:
  $ poste setup --dry-run
  $ poste setup --yes --agent claude-code=builder --agent codex=reviewer --allow-tools
  $ poste setup --project --notes
  $ poste setup --print tester
  $ poste setup --undo`;

export function setupCommand(context: CommandContext): Command {
  return draft(context)
    .notes(NOTES)
    .action(async (flags) => {
      if (flags.print !== undefined) return print(context, flags.print, flags);
      return flags.undo ? undo(context, flags) : setup(context, flags);
    });
}

function draft(context: CommandContext) {
  const alone = ['program', 'agent', 'allowTools', 'project', 'notes', 'service', 'dryRun', 'yes', 'undo'] as const;
  const agent = 'the agent of a program (default: the one it has, else the name of its command)';
  const notes = "tell the project's agents how to write to others, in its CLAUDE.md, AGENTS.md or GEMINI.md";
  const entry = 'only print the mail tools of an agent as an entry for any other program';
  const ofSetup = ['program', 'agent', 'allowTools', 'service', 'notes'] as const;
  return new CommandDraft(context, 'setup')
    .option('--program <name...>', 'only these programs', { choices: SETTLED_PROGRAMS })
    .option('--agent <program=name>', agent, agentOfProgram)
    .option('--allow-tools', 'also let the programs use the mail tools without asking you')
    .option('--project [folder]', 'give the programs agents of their own in this folder, or git checkout')
    .option('--notes', notes)
    .option('--no-service', 'start the daemon without systemd')
    .option('--dry-run', 'only show what would change')
    .option('--yes', 'do not ask')
    .option('--undo', 'take back everything that setup did', { conflicts: ofSetup })
    .option('--print <agent>', entry, { parse: givenName, conflicts: alone })
    .option(...JSON_FLAG);
}

type SetupFlags = FlagsOf<typeof draft>;

/** The entry alone is on standard output: it may be written into a file. */
function print(context: CommandContext, agent: string, { json }: SetupFlags): void {
  const entry = { mcpServers: { poste: plainServer()(serverOf(context, agent)) } };
  context.stdout.write(json ? jsonLine(entry) : `${JSON.stringify(entry, null, 2)}\n`);
  if (json) return;
  const lines = [
    'Paste this into the settings of your program, where the list may be called otherwise, such as mcp or servers.',
    `poste agent add ${agent} adds the agent, if it is not there yet.`,
  ];
  context.stderr.write(formatLines(lines));
}

function agentOfProgram(text: string, before: Agents = new Map()): Agents {
  const at = text.indexOf('=');
  const [word, name] = at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
  const program = SETTLED_PROGRAMS.find((known) => known === word);
  if (program === undefined || at === -1) {
    const example = `${program ?? 'claude-code'}=builder`;
    throw new InvalidArgumentError(`Give one of ${SETTLED_PROGRAMS.join(', ')}, then = and the agent: ${example}.`);
  }
  if (before.has(program)) throw new InvalidArgumentError(`${program} has the agent ${before.get(program)} already.`);
  return new Map([...before, [program, givenName(name)]]);
}

function givenName(name: string): string {
  const fault = nameFault(name);
  must(fault === undefined, `${fault}.`);
  return name;
}

/** Says why no agent can have this name. */
function nameFault(name: string): string | undefined {
  if (RESERVED_NAMES.has(foldName(name))) return `${name} means the owner or the host itself: take another name`;
  if (isAgentName(name)) return undefined;
  return "An agent's name has letters, digits, dots, hyphens and underscores, at most 64";
}

type Shown = ShownStep<'already' | 'done' | 'kept'>;

async function setup(context: CommandContext, flags: SetupFlags): Promise<void> {
  const { dryRun = false, yes, json } = flags;
  const programs = programsHere(context, flags);
  const fault = daemonSocketFault(ownPaths(context));
  if (fault !== undefined) throw new CommandFailed('failure', 'SOCKET_PATH_TOO_LONG', fault);
  // A record that cannot be read could not be added to.
  readWritten(context);
  const isAsking = !dryRun && !yes && !json && isInteractive(context);
  const folder = flags.project || flags.notes ? projectFolder(flags.project ?? true) : undefined;
  const isProject = folder !== undefined && flags.project !== undefined;
  // In a project its own agents are named, and the others stay.
  const usual = agentsOf(context, programs, isProject ? {} : flags);
  const given = isProject ? await projectAgentsOf(context, folder, programs, flags.agent) : usual;
  const chosen = isAsking ? await asked(context, given, flags) : { ...flags, agents: given };
  const steps = [
    ...stepsOf(context, isProject ? usual : chosen.agents, chosen),
    ...(isProject ? projectSteps(context, folder, chosen.agents) : []),
    ...(folder !== undefined && flags.notes ? notesSteps(context, folder, programs) : []),
  ];
  const plan: NamedLook[] = [];
  // All settings are read before anything is changed.
  for (const step of steps) plan.push(await lookAt(step, programs));
  const isNeeded = plan.some(({ state }) => state === 'planned');
  const planned = plan.map(({ notice: _notice, ...shown }): Shown => shown);
  // A document is the only thing on standard output; who is asked sees the plan all the same.
  const planStream = json ? context.stderr : context.stdout;
  if (isNeeded && !(json && (yes || dryRun))) planStream.write(planned.map(lineOf).join(''));
  if (isNeeded && !dryRun) {
    await confirmed(context, 'Do this?', { yes, stake: 'setup changes the settings of your programs' });
  }
  const done: Done = { shown: planned, notices: plan.flatMap(({ notice }) => notice ?? []) };
  if (isNeeded && !dryRun) Object.assign(done, await withSetupLock(context, () => carriedOut(context, steps, json)));
  else if (!json && !isNeeded) context.stdout.write(planned.map(lineOf).join(''));
  if (!dryRun) for (const program of chosen.agents.keys()) done.notices.push(...programNotices(context, program));
  if (json) context.stdout.write(jsonLine({ dry_run: dryRun, steps: done.shown, notices: done.notices }));
  else if (!dryRun) {
    const lines = [...done.notices, ...nextOf([...new Set(chosen.agents.values())])];
    context.stdout.write(formatLines(lines));
  }
}

interface Done {
  shown: Shown[];
  notices: string[];
}

/** Looks again before each step: another command may have done it since, or an earlier step has. */
async function carriedOut(context: CommandContext, steps: readonly Step[], json = false): Promise<Done> {
  const done: Done = { shown: [], notices: [] };
  const previous = new Map<string, string | null>();
  for (const step of steps) {
    const { notice, ...found } = nameLook(step, await step.look());
    if (notice !== undefined) done.notices.push(notice);
    let shown: Shown = found;
    if (found.state === 'planned') {
      const { did = step.text, notices, file } = await step.run();
      shown = { step: did, state: 'done' };
      done.notices.push(...notices);
      // Of a file that is changed twice, only the first copy is what its owner had.
      if (file && !previous.has(file.path)) previous.set(file.path, file.copy);
    }
    done.shown.push(shown);
    if (!json) context.stdout.write(lineOf(shown));
  }
  for (const [path, copy] of previous) if (copy !== null) done.notices.push(`The previous ${path} is ${copy}.`);
  return done;
}

/** Throws `CommandFailed`, which says how to set up the other programs when one has settings that cannot be read. */
async function lookAt(step: Step, programs: readonly SettledProgram[]): Promise<NamedLook> {
  try {
    return nameLook(step, await step.look());
  } catch (error) {
    const others = programs.filter((program) => program !== step.program);
    const isRefused = error instanceof CommandFailed && error.code === 'SETTINGS_REFUSED';
    if (!isRefused || step.program === undefined || others.length === 0) throw error;
    const advice = `or leave out ${step.program} with --program ${others.join(' ')}`;
    throw new CommandFailed(error.exit, error.code, `${error.message}, ${advice}`, error.details);
  }
}

type NamedLook = Look & { step: string };

/** What a step found, under its own text where it does not say another. */
function nameLook({ text }: Step, look: Look): NamedLook {
  return { step: text, ...look };
}

function lineOf(shown: Shown): string {
  return stepText(shown, 'to do');
}

/** Throws `CommandFailed` when a program that was asked for, or every program, is absent. */
function programsHere(context: CommandContext, { program: wanted, agent = new Map() }: SetupFlags): SettledProgram[] {
  const isHere = (name: SettledProgram): boolean =>
    findProgram(SETTINGS_OF[name].command, context.env['PATH']) !== undefined;
  const leftOut = wanted && [...agent.keys()].find((name) => !wanted.includes(name));
  if (leftOut !== undefined) {
    const message = `--agent ${leftOut}=${agent.get(leftOut)} is for a program that --program does not name`;
    throw usageFailure(`${message}: add ${leftOut} there, or leave out the agent`);
  }
  const absent = [...(wanted ?? []), ...agent.keys()].find((name) => !isHere(name));
  if (absent !== undefined) {
    const flag = wanted?.includes(absent) ? `--program ${absent}` : `--agent ${absent}=${agent.get(absent)}`;
    const message = `there is no program ${SETTINGS_OF[absent].command} on PATH: install it, or leave out ${flag}`;
    throw new CommandFailed('notFound', 'NO_SUCH_PROGRAM', message);
  }
  const found = SETTLED_PROGRAMS.filter((name) => (wanted ? wanted.includes(name) : isHere(name)));
  if (found.length > 0) return found;
  const names = Object.values(SETTINGS_OF)
    .map(({ command }) => command)
    .join(', ');
  const remedy = 'install one of them first, or print an entry for your program with poste setup --print <agent>';
  throw new CommandFailed('notFound', 'NO_PROGRAM', `none of ${names} is on PATH: ${remedy}`);
}

/**
 * A program keeps the agent whose mail tools it has, so that a setup without flags changes nothing of an earlier one.
 */
function agentsOf(
  context: CommandContext,
  programs: readonly SettledProgram[],
  { agent }: Pick<SetupFlags, 'agent'>,
): Agents {
  const nameOf = (program: SettledProgram): string =>
    agent?.get(program) ?? presentAgent(context, program) ?? SETTINGS_OF[program].command;
  return new Map(programs.map((program) => [program, nameOf(program)]));
}

function presentAgent(context: CommandContext, program: SettledProgram): string | undefined {
  // The step that is to write this file says what is wrong with it.
  const there = caught(() => serverOfProgram(toolsFile(context, program), program), CommandFailed, nothing);
  const name = there?.type === 'command' ? mailToolsOf(there.server)?.agent : undefined;
  return name === undefined || nameFault(name) !== undefined ? undefined : name;
}

/** Asks on the terminal for all that the flags leave open. */
async function asked(
  context: CommandContext,
  given: Agents,
  flags: SetupFlags,
): Promise<SetupFlags & { agents: Agents }> {
  const { stdin: input, stderr: output } = context;
  const lines = createInterface({ input, output });
  const ended = new AbortController();
  lines.once('close', () => ended.abort());
  const question = async (text: string): Promise<string> => (await lines.question(text, ended)).trim();
  try {
    const agents = new Map<SettledProgram, string>();
    for (const [program, name] of given) {
      const answer = flags.agent?.has(program) ? '' : await askedName(question, program, name, output);
      agents.set(program, answer === '' ? name : answer);
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

/** Asks again until the answer is a name, or empty. */
async function askedName(
  question: (text: string) => Promise<string>,
  program: SettledProgram,
  name: string,
  output: { write: (text: string) => unknown },
): Promise<string> {
  for (;;) {
    const given = await question(`Name of the agent for ${program} [${name}]: `);
    const fault = given === '' ? undefined : nameFault(given);
    if (fault === undefined) return given;
    output.write(`${fault}.\n`);
  }
}

/** A single agent gets the owner's mail. */
function nextOf([first = '', second]: readonly string[]): string[] {
  const [from, to] = second === undefined ? [OWNER_NAME, first] : [first, second];
  return [
    'Start the programs again. A first mail:',
    `  echo 'Who are you?' | poste send --as ${from} --to ${to} --subject Hello --body - --needs-reply`,
  ];
}

async function undo(context: CommandContext, { dryRun = false, yes, json, project }: SetupFlags): Promise<void> {
  const folder = project === undefined ? undefined : projectFolder(project, { mayBeGone: true });
  const result = await undoSetup(context, { dryRun, yes, json, folder });
  if (json) context.stdout.write(jsonLine(result));
}
