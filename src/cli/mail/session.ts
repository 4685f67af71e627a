/** `poste session`: how scripts and hooks register the session of an agent, and wait for its doorbell. */
import { Command } from 'commander';
import type { SessionListResult, SessionRegisterInput, SessionState } from '../../host/contract/agents.ts';
import { WAKE_ARGUMENT_CHARACTERS_MAX, WAKE_ARGUMENTS_MAX } from '../../host/contract/socket-protocol.ts';
import { tmuxPane } from '../../host/hooks/programs.ts';
import type { CommandContext } from '../lib/context.ts';
import { nextDoorbell } from '../lib/attendance.ts';
import { ask, actingCommand, startingNone } from '../lib/daemon-call.ts';
import { CommandFailed, usageFailure } from '../lib/exit.ts';
import { print } from '../lib/output.ts';
import type { AskDaemon } from '../lib/patient-daemon.ts';
import type { Screen } from '../lib/screen.ts';
import { table } from '../lib/table.ts';
import { must, requireProgram, seconds } from '../lib/values.ts';

const NOTES = `
The program of an agent registers a session when it starts, and ends it when it stops. In between it sends heartbeats,
or names its process with --pid: the session then lives as long as the process. When mail must wake the agent, the
daemon uses the best method that the session registered. A sender hears that the agent is woken when the program says
within five seconds, with heartbeat --line, that its agent has the line.

Examples:
  $ poste session register build-7 --as backend --pid $$
  $ poste session register build-7 --as backend --pid $$ --tmux
  $ poste session register build-7 --as backend -- notify-send Poste
  $ line=$(poste session wait build-7 --as backend)
  $ poste session heartbeat build-7 --as backend --line "$line"
  $ poste session list
  $ poste session end build-7 --as backend`;

export function sessionCommand(context: CommandContext): Command {
  const session = new Command('session').addHelpText('after', NOTES);
  const about = 'after --: a program that wakes it, run without a shell, with the text as the last argument';
  actingCommand(context, 'register')
    .childOf(session, 'Register a session, and how to wake it.')
    .argument(...SESSION_ARGUMENT)
    .argument('[command...]', about)
    .option('--hook', 'the session waits with poste session wait')
    .option('--tmux', "type into this tmux pane while it shows the session's process and an empty line")
    .option('--pid <pid>', "the session's process", processNumber)
    .notes('\nExample:\n  $ poste session register build-7 --as backend --pid $$ --tmux')
    .answers(async (session_id, words, { hook = false, tmux = false, pid, ...flags }) => {
      const wake: WakeMethod[] = [];
      if (hook) wake.push({ type: 'hook' });
      if (words.length > 0) wake.push(commandMethod(context, words));
      if (tmux) wake.push(tmuxMethod(context, pid));
      return ask(context, 'session-register', { session_id, wake, ...(pid !== undefined && { pid }) }, flags);
    })
    .prints(stateText);
  actingCommand(context, 'heartbeat')
    .childOf(session, 'Report that a session is still alive, or that its agent got a doorbell.')
    .argument(...SESSION_ARGUMENT)
    .option('--line <text>', "the doorbell's line, once its agent has it: the proof that it is woken")
    .notes('\nExample:\n  $ poste session heartbeat build-7 --as backend')
    .answers((session_id, { line, ...flags }) => {
      const told = line === undefined ? {} : { tell: true, lines: [line] };
      return ask(context, 'session-heartbeat', { session_id, ...told }, flags);
    })
    .prints(stateText);
  actingCommand(context, 'wait')
    .childOf(session, 'Wait for the doorbell of a session that was registered with --hook, and print its text.')
    .argument(...SESSION_ARGUMENT)
    .option('--timeout <seconds>', 'how long to wait (default: without end); exits with 75 afterwards', seconds)
    .notes('\nExample:\n  $ poste session wait build-7 --as backend --timeout 600')
    .answers(async (session, { timeout = Number.POSITIVE_INFINITY, ...flags }) => {
      const askDaemon: AskDaemon = (name, input, options) => ask(context, name, input, flags, options);
      const text = await nextDoorbell(askDaemon, session, timeout * 1000);
      if (text === undefined)
        throw new CommandFailed('temporary', 'NOTHING_RANG', 'no doorbell in that time: wait again');
      return { text };
    })
    .prints(({ text }) => `${text}\n`);
  startingNone(actingCommand(context, 'end'))
    .childOf(session, 'End a session.')
    .argument(...SESSION_ARGUMENT)
    .notes('\nExample:\n  $ poste session end build-7 --as backend')
    .action(async (session, flags) => {
      const result = await ask(context, 'session-end', { session_id: session }, flags);
      print(context, flags, result, () => (result.ended ? 'Ended.\n' : ''));
      if (result.ended) return;
      const message = `there is no session ${session} of this agent, or it has ended already: see poste session list`;
      throw new CommandFailed('notFound', 'NO_SUCH_SESSION', message);
    });
  startingNone(actingCommand(context, 'list'))
    .childOf(session, 'List the sessions of an agent, or of all agents.')
    .notes('\nExample:\n  $ poste session list --json')
    .answers((flags) => ask(context, 'session-list', {}, flags))
    .prints(({ sessions }, screen) => listText(screen, sessions));
  return session;
}

const SESSION_ARGUMENT = ['<session>', 'the name of the session: letters, digits, dots, hyphens, underscores'] as const;

function processNumber(text: string): number {
  must(/^[1-9][0-9]{0,9}$/.test(text), 'It must be a process id.');
  return Number(text);
}

type WakeMethod = NonNullable<SessionRegisterInput['wake']>[number];

function commandMethod(context: CommandContext, [name = '', ...args]: readonly string[]): WakeMethod {
  const isTooLong = args.length > WAKE_ARGUMENTS_MAX || args.some((one) => one.length > WAKE_ARGUMENT_CHARACTERS_MAX);
  if (isTooLong) {
    const most = `${WAKE_ARGUMENTS_MAX} arguments, of ${WAKE_ARGUMENT_CHARACTERS_MAX} characters each`;
    throw usageFailure(`the program that wakes the session may have at most ${most}`);
  }
  const program = requireProgram(name, context.env['PATH']);
  return { type: 'command', program, arguments: args };
}

function tmuxMethod(context: CommandContext, pid: number | undefined): WakeMethod {
  const method = tmuxPane(context.env, 'unknown');
  const message = 'this is not a tmux pane: leave out --tmux, or run the command inside tmux';
  if (method === undefined) throw new CommandFailed('usage', 'NOT_IN_TMUX', message);
  if (pid !== undefined) return method;
  throw usageFailure('--tmux needs --pid: the daemon types into a terminal only while it shows that process');
}

function stateText({ text }: SessionState): string {
  return `${text ?? 'No unread messages.'}\n`;
}

type Session = SessionListResult['sessions'][number];

function listText(screen: Screen, sessions: readonly Session[]): string {
  if (sessions.length === 0) return 'No sessions.\n';
  return table<Session>(screen, sessions, [
    { title: 'AGENT', cell: ({ agent }) => agent },
    { title: 'SESSION', cell: ({ session_id }) => session_id },
    {
      title: 'IS',
      cell: ({ presence }) => presence,
      style: ({ presence }) => (presence === 'live' ? 'green' : 'dim'),
    },
    { title: 'SEEN', time: ({ seen_at }) => seen_at },
    { title: 'WAKE BY', cell: ({ wake }) => (wake.length === 0 ? '-' : wake.join(', ')) },
    { title: 'WOKEN BY', cell: ({ woken_by }) => woken_by ?? '-' },
  ]);
}
