/** A program in a terminal: a tmux of its own, whose panes are read and typed into. */
import { execFile } from 'node:child_process';
import { setTimeout as elapsed } from 'node:timers/promises';
import { promisify } from 'node:util';
import { until } from '../until.ts';

const run = promisify(execFile);

export class Terminal {
  readonly #socket: string;
  readonly #name: string;
  readonly #env: Readonly<Record<string, string>>;

  private constructor(socket: string, name: string, env: Readonly<Record<string, string>>) {
    this.#socket = socket;
    this.#name = name;
    this.#env = env;
  }

  static async open(given: {
    socket: string;
    name: string;
    folder: string;
    env: Readonly<Record<string, string>>;
    command: readonly string[];
  }): Promise<Terminal> {
    const terminal = new Terminal(given.socket, given.name, given.env);
    const variables = Object.entries(given.env).flatMap(([name, value]) => ['-e', `${name}=${value}`]);
    const size = ['-x', '150', '-y', '50'];
    await terminal.#tmux(
      'new-session',
      '-d',
      '-s',
      given.name,
      ...size,
      '-c',
      given.folder,
      ...variables,
      ...given.command,
    );
    return terminal;
  }

  /** The process of the pane. */
  async pid(): Promise<number> {
    return Number(await this.#tmux('display-message', '-p', '-t', this.#name, '#{pane_pid}'));
  }

  async screen(): Promise<string> {
    return this.#tmux('capture-pane', '-p', '-t', this.#name).catch(() => '');
  }

  async type(text: string): Promise<void> {
    await this.#tmux('send-keys', '-t', this.#name, '-l', text);
  }

  /** Types a line. Enter comes a moment later: right behind the text a program would take it for a pasted one. */
  async enter(line: string): Promise<void> {
    await this.type(line);
    await elapsed(400);
    await this.press('Enter');
  }

  async press(...keys: string[]): Promise<void> {
    await this.#tmux('send-keys', '-t', this.#name, ...keys);
  }

  async shows(what: RegExp): Promise<void> {
    await until(`the terminal shows ${what}`, async () => what.test(await this.screen()) || undefined);
  }

  async #tmux(...args: string[]): Promise<string> {
    return (await run('tmux', ['-S', this.#socket, '-f', '/dev/null', ...args], { env: this.#env })).stdout;
  }
}

export async function endTerminals(socket: string): Promise<void> {
  await run('tmux', ['-S', socket, 'kill-server']).catch(() => undefined);
}
