/** `poste session`: how scripts and hooks say that an agent's session is there, and wait for its doorbell. */
import { Command, InvalidArgumentError, Option } from 'commander';
import {
  SESSION_WAIT_MS_MAX,
  type SessionListResult,
  type SessionRegisterInput,
  type SessionState,
} from '../host/documents/sessions.ts';
import { type ActingFlags, ask, withActingFlags } from './daemon-call.ts';
import { CommandFailed } from './exit.ts';
import { findProgram } from './find-program.ts';
import { jsonLine, table, timeText } from './text.ts';

const NOTES = `
An agent's program registers a session when it starts, says from time to time that it is still there (or names its
process with --pid, which says so by running), and ends it. What wakes is rung for at the best of a session's ways.

Examples:
  $ poste session register build-7 --as backend --pid $$
  $ poste session register build-7 --as backend --pid $$ --tmux
  $ poste session register build-7 --as backend -- notify-send Poste
  $ poste session wait build-7 --as backend && echo wake up
  $ poste session list
  $ poste session end build-7 --as backend`;

export function sessionCommand(): Command {
  return new Command('session')
    .description("Say that an agent's session is there, and wait for its doorbell.")
    .addCommand(registerCommand())
    .addCommand(heartbeatCommand())
    .addCommand(waitCommand())
    .addCommand(endCommand())
    .addCommand(listCommand())
    .addHelpText('after', NOTES);
}

const SESSION_ARGUMENT = [
  '<session>',
  'what the session calls itself: letters, digits, points, hyphens, underlines',
] as const;
const STATE = 'print the state as one JSON document';
/** Longer than a call that waits. */
const WAIT_SILENCE_MS = SESSION_WAIT_MS_MAX + 15_000;

interface RegisterFlags extends ActingFlags {
  hook?: boolean;
  tmux?: boolean;
  pid?: number;
}

function registerCommand(): Command {
  const command = new Command('register')
    .description('A session is there, and can be woken in these ways.')
    .argument(...SESSION_ARGUMENT)
    .argument('[command...]', 'after --: a program that wakes it, run without a shell, with the text as last argument')
    .option('--hook', 'it waits with poste session wait')
    .option('--tmux', "type into the tmux pane that this command runs in, while it shows the session's process")
    .addOption(new Option('--pid <pid>', "the session's process").argParser(processNumber));
  return withActingFlags(command, STATE)
    .addHelpText('after', '\nExample:\n  $ poste session register build-7 --as backend --pid $$ --tmux')
    .action(async (session: string, words: string[], flags: RegisterFlags) => {
      const { hook = false, tmux = false, pid } = flags;
      const wake: NonNullable<SessionRegisterInput['wake']> = [];
      if (hook) wake.push({ type: 'hook' });
      if (words.length > 0) wake.push(commandMethod(words));
      if (tmux) wake.push(tmuxMethod(pid));
      const input = { session_id: session, wake, ...(pid !== undefined && { pid }) };
      printState(await ask('session-register', input, flags), flags);
    });
}

function processNumber(text: string): number {
  if (!/^[1-9][0-9]{0,9}$/.test(text)) throw new InvalidArgumentError('It must be the number of a process.');
  return Number(text);
}

function commandMethod([name = '', ...args]: readonly string[]): {
  type: 'command';
  program: string;
  arguments: string[];
} {
  const program = findProgram(name, process.env['PATH']);
  if (program === undefined) {
    throw new CommandFailed('notFound', 'NO_SUCH_PROGRAM', `there is no program ${name}: name one, or its path`);
  }
  return { type: 'command', program, arguments: args };
}

function tmuxMethod(pid: number | undefined): { type: 'tmux'; socket: string; pane: string } {
  const { TMUX = '', TMUX_PANE: pane } = process.env;
  const [socket = ''] = TMUX.split(',');
  if (socket === '' || pane === undefined) {
    throw new CommandFailed('usage', 'NOT_IN_TMUX', 'this runs in no tmux pane: leave --tmux out, or run it in one');
  }
  if (pid === undefined) {
    const why = '--tmux needs --pid: a terminal is only typed into while it shows that process';
    throw new CommandFailed('usage', 'USAGE', why);
  }
  return { type: 'tmux', socket, pane };
}

function heartbeatCommand(): Command {
  const command = new Command('heartbeat').description('A session is still there.').argument(...SESSION_ARGUMENT);
  return withActingFlags(command, STATE)
    .addHelpText('after', '\nExample:\n  $ poste session heartbeat build-7 --as backend')
    .action(async (session: string, flags: ActingFlags) => {
      printState(await ask('session-heartbeat', { session_id: session }, flags), flags);
    });
}

function printState(state: SessionState, { json }: ActingFlags): void {
  const text = state.text ?? 'No message is unread.';
  process.stdout.write(json ? jsonLine(state) : `${text}\n`);
}

interface WaitFlags extends ActingFlags {
  timeout?: number;
}

function waitCommand(): Command {
  const command = new Command('wait')
    .description('Wait for the doorbell of a session that was registered with --hook, and print what it says.')
    .argument(...SESSION_ARGUMENT)
    .addOption(
      new Option('--timeout <seconds>', 'how long to wait (default: as long as it takes); then exit with 75').argParser(
        seconds,
      ),
    );
  return withActingFlags(command, 'print the doorbell as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste session wait build-7 --as backend --timeout 600')
    .action(async (session: string, flags: WaitFlags) => {
      const text = await doorbell(session, flags);
      process.stdout.write(flags.json ? jsonLine({ text }) : `${text}\n`);
    });
}

function seconds(text: string): number {
  const value = /^[0-9]+(?:\.[0-9]+)?$/.test(text) ? Number(text) : Number.NaN;
  if (!(value <= 1_000_000)) throw new InvalidArgumentError('It must be a number of seconds, at most 1000000.');
  return value;
}

async function doorbell(session: string, flags: WaitFlags): Promise<string> {
  const untilMs = flags.timeout === undefined ? Number.POSITIVE_INFINITY : performance.now() + flags.timeout * 1000;
  for (;;) {
    const wait_ms = Math.min(SESSION_WAIT_MS_MAX, Math.max(0, Math.ceil(untilMs - performance.now())));
    const asked = { session_id: session, wait_ms };
    const { event, ring, text } = await ask('session-wait', asked, flags, { silenceMs: WAIT_SILENCE_MS });
    if (event === 'released') {
      throw new CommandFailed('temporary', 'RELEASED', 'the session ended, works, or waits elsewhere: nothing rang');
    }
    if (event === 'doorbell' && ring !== null && text !== null) {
      const { counted } = await ask('session-heard', { session_id: session, ring }, flags);
      if (counted) return text;
    }
    if (performance.now() >= untilMs) throw new CommandFailed('temporary', 'NOTHING_RANG', 'nothing rang in that time');
  }
}

function endCommand(): Command {
  const command = new Command('end').description('A session is over.').argument(...SESSION_ARGUMENT);
  return withActingFlags(command, 'print whether it was there as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste session end build-7 --as backend')
    .action(async (session: string, flags: ActingFlags) => {
      const result = await ask('session-end', { session_id: session }, flags);
      if (flags.json) process.stdout.write(jsonLine(result));
      else process.stdout.write(result.ended ? 'It is over.\n' : 'It was not there, or had ended.\n');
    });
}

function listCommand(): Command {
  const command = new Command('list').description('List the sessions of an agent, or of all.');
  return withActingFlags(command, 'print them as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste session list --json')
    .action(async (flags: ActingFlags) => {
      const list = await ask('session-list', {}, flags);
      process.stdout.write(flags.json ? jsonLine(list) : listText(list.sessions));
    });
}

type Session = SessionListResult['sessions'][number];

function listText(sessions: readonly Session[]): string {
  if (sessions.length === 0) return 'There is no session.\n';
  return table<Session>(
    [
      { title: 'AGENT', cell: ({ agent }) => agent },
      { title: 'SESSION', cell: ({ session_id }) => session_id },
      { title: 'IS', cell: ({ presence }) => presence },
      { title: 'SEEN', cell: ({ seen_at }) => timeText(seen_at) },
      { title: 'WAKE BY', cell: ({ wake }) => (wake.length === 0 ? '-' : wake.join(', ')) },
      { title: 'WOKEN BY', cell: ({ woken_by }) => woken_by ?? '-' },
    ],
    sessions,
  );
}
