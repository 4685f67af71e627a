/**
 * What one scenario has for itself: a home, a scripted model, a Poste with a daemon and two agents, a tmux. Nothing of
 * the user is seen from here, and everything is ended and removed when the scenario is over.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Installed, ProgramName } from './installs.ts';
import { type Asked, ScriptedModel } from './model.ts';
import { endStrangers, strangers } from './namespace.ts';
import { endTerminals, Terminal } from './terminal.ts';
import { until, within } from '../until.ts';

const POSTE = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

/** What the room has for the sockets of its user. */
const SOCKETS = '/run/user/0';

/** The agent that runs in the program, and the one that writes to it. */
export const READER = 'bob';
export const WRITER = 'alice';

/** How much of a terminal explains a fault. */
const SCREEN_LINES = 15;

/** The doorbell, as a model sees it. */
const DOORBELL = /You have \d+ unread messages? in Poste/g;

export function hasDoorbell(text: string): boolean {
  return timesRung(text) > 0;
}

/** Returns how often the doorbell stands in a text. */
export function timesRung(text: string): number {
  return text.match(DOORBELL)?.length ?? 0;
}

export interface Ran {
  code: number | null;
  stdout: string;
  stderr: string;
  ms: number;
}

export interface Sent {
  messageId: string;
  status: string;
  detail: string;
  ms: number;
}

export type Programs = Readonly<Partial<Record<ProgramName, Installed>>>;

export class World {
  readonly folder: string;
  readonly home: string;
  /** Where programs work. */
  readonly project: string;
  readonly model: ScriptedModel;
  readonly env: Record<string, string>;
  readonly #tmux: string;
  readonly #terminals: Terminal[] = [];
  #mails = 0;

  private constructor(folder: string, model: ScriptedModel) {
    this.folder = folder;
    this.model = model;
    this.home = join(folder, 'home');
    this.project = join(this.home, 'project');
    this.#tmux = join(folder, 'tmux');
    const bin = join(folder, 'bin');
    this.env = {
      HOME: this.home,
      PATH: [bin, dirname(process.execPath), '/usr/local/bin', '/usr/bin', '/bin'].join(':'),
      XDG_RUNTIME_DIR: SOCKETS,
      TMPDIR: join(folder, 'tmp'),
      TERM: 'xterm-256color',
      LANG: 'C.UTF-8',
      SHELL: '/bin/sh',
      USER: 'tester',
      POSTE_LAN_LISTEN: '127.0.0.1:0',
    };
    for (const path of [this.project, bin, join(folder, 'tmp')]) mkdirSync(path, { recursive: true });
  }

  static async make(programs: Programs): Promise<World> {
    const world = new World(mkdtempSync(join(tmpdir(), 'poste-programs-')), await ScriptedModel.start());
    world.#command('poste', POSTE);
    world.#command('node', process.execPath);
    for (const [name, { file }] of Object.entries(programs)) world.#command(name, file);
    return world;
  }

  /** A command on PATH. */
  #command(name: string, file: string): void {
    const isScript = file.endsWith('.js');
    const path = join(this.folder, 'bin', name);
    writeFileSync(path, `#!/bin/sh\nexec ${isScript ? `'${process.execPath}' ` : ''}'${file}' "$@"\n`);
    chmodSync(path, 0o755);
  }

  /** Puts a line of shell in the place of a command; `$POSTE` there is the real one. */
  replaceCommand(name: string, line: string): void {
    const path = join(this.folder, 'bin', name);
    renameSync(path, `${path}-real`);
    writeFileSync(path, `#!/bin/sh\nPOSTE='${path}-real'\n${line}\n`);
    chmodSync(path, 0o755);
  }

  /** A host with a daemon and both agents. */
  async startPoste(): Promise<void> {
    await this.poste('init', '--host', 'here');
    const daemon = this.start('poste', ['daemon', '--json', '--log-level', 'warn']);
    await until('the daemon is ready', () => (daemon.output().includes('\n') ? true : undefined));
    for (const name of [WRITER, READER]) await this.poste('agent', 'add', name);
  }

  write(path: string, content: string | object): void {
    const file = join(this.home, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content, null, 2));
  }

  read(path: string): string {
    return readFileSync(join(this.home, path), 'utf8');
  }

  /** Throws when the command fails. */
  async poste(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run('poste', args);
    if (code !== 0) throw new Error(`poste ${args.join(' ')} ended with ${code}: ${stderr}${stdout}`);
    return stdout;
  }

  async run(
    program: string,
    args: readonly string[],
    given: { input?: string; env?: Record<string, string> } = {},
  ): Promise<Ran> {
    const startMs = performance.now();
    const child = spawn(join(this.folder, 'bin', program), args, {
      cwd: this.project,
      env: { ...this.env, ...given.env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (chunk) => (stdout += String(chunk)));
    child.stderr.on('data', (chunk) => (stderr += String(chunk)));
    child.stdin.on('error', () => undefined);
    child.stdin.end(given.input ?? '');
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      // Not "close": what it left running may keep its output open.
      child.once('exit', resolve);
    });
    return { code, stdout, stderr, ms: performance.now() - startMs };
  }

  /** A program that runs on, with an open standard input. */
  start(
    program: string,
    args: readonly string[],
    env: Record<string, string> = {},
  ): { child: ChildProcess; output: () => string } {
    const child = spawn(join(this.folder, 'bin', program), args, {
      cwd: this.project,
      env: { ...this.env, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let output = '';
    child.stdout.on('data', (chunk) => (output += String(chunk)));
    child.stderr.on('data', (chunk) => (output += String(chunk)));
    child.stdin.on('error', () => undefined);
    return { child, output: () => output };
  }

  async terminal(program: string, args: readonly string[] = [], folder = this.project): Promise<Terminal> {
    const terminal = await Terminal.open({
      socket: this.#tmux,
      name: `${program}-${this.#terminals.length}`,
      folder,
      env: this.env,
      command: [join(this.folder, 'bin', program), ...args],
    });
    this.#terminals.push(terminal);
    return terminal;
  }

  /** A request from the writer to the reader: what `poste send` says of it. */
  async send(to = READER): Promise<Sent> {
    const startMs = performance.now();
    const mail = ['--to', to, '--subject', `Mail ${++this.#mails}`, '--body', 'Please look.', '--kind', 'request'];
    const answer = JSON.parse(await this.poste('send', '--as', WRITER, ...mail, '--json')) as {
      message_id: string;
      recipients: { status: string; detail: string }[];
    };
    const [recipient] = answer.recipients;
    if (recipient === undefined) throw new Error('poste send named no recipient');
    return { ...recipient, messageId: answer.message_id, ms: Math.round(performance.now() - startMs) };
  }

  async presence(agent = READER): Promise<string[]> {
    const { sessions } = JSON.parse(await this.poste('session', 'list', '--as', agent, '--json')) as {
      sessions: { presence: string }[];
    };
    return sessions.map(({ presence }) => presence);
  }

  /** The first turn after `count` turns whose newest message has the doorbell. */
  rung(count: number): Asked | undefined {
    return this.model.turns.slice(count).find(({ newest }) => hasDoorbell(newest));
  }

  async rungWithin(forMs: number, count: number): Promise<Asked | undefined> {
    return within(forMs, () => this.rung(count));
  }

  /** Returns how many messages the agent has not read. */
  async unread(agent = READER): Promise<number> {
    const list = await this.poste('inbox', 'list', '--as', agent, '--state', 'unread', '--json');
    return (JSON.parse(list) as { unread: number }).unread;
  }

  /** The processes of this scenario whose command line matches; its words end in NUL. */
  processes(commandLine: RegExp): number[] {
    return strangers().filter((pid) => {
      try {
        return commandLine.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8'));
      } catch {
        return false;
      }
    });
  }

  /** Returns what may explain a fault: what the terminals show, and what the model was last asked. */
  async traces(): Promise<string> {
    const screens = await Promise.all(this.#terminals.map((terminal) => terminal.screen()));
    const asked = this.model.turns.slice(-2).map(({ newest }) => `asked: …${newest.slice(-300)}`);
    const strange = this.model.strange.length === 0 ? [] : [`unknown to the model: ${this.model.strange.join(', ')}`];
    const shown = screens.map((screen) =>
      screen
        .replaceAll(/\n\s*\n/g, '\n')
        .split('\n')
        .slice(-SCREEN_LINES),
    );
    return [...shown.flat(), ...asked, ...strange].join('\n');
  }

  async close(): Promise<void> {
    this.model.close();
    await endTerminals(this.#tmux);
    endStrangers();
    await within(5000, () => (strangers().length === 0 ? true : undefined));
    for (const name of readdirSync(SOCKETS)) rmSync(join(SOCKETS, name), { recursive: true, force: true });
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}
