/** A folder in which the lines of a page are typed into a shell, with `poste` and programs of the test on its PATH. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { PATIENCE_MS } from './patience.ts';
import type { Environment } from './poste-process.ts';
import { signal } from './process-tree.ts';
import { atTestEnd } from './test-end.ts';

const run = promisify(execFile);
const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

export class ShellFolder {
  /** The home of who types. */
  readonly folder: string;
  readonly environment: Record<string, string>;

  constructor(folder: string, environment: Environment) {
    this.folder = folder;
    const PATH = [join(folder, 'bin'), dirname(process.execPath), '/usr/bin', '/bin'].join(':');
    this.environment = { ...environment, PATH, HOME: folder, TMPDIR: folder };
  }

  /** Makes the folder, with `poste` in it. */
  async furnish(): Promise<void> {
    await mkdir(join(this.folder, 'bin'), { recursive: true });
    await this.program('bin/poste', `exec ${process.execPath} ${MAIN} "$@"`);
  }

  /** A script of `sh`, unless it says of what. */
  async program(name: string, text: string): Promise<void> {
    const path = join(this.folder, name);
    await writeFile(path, text.startsWith('#!') ? text : `#!/bin/sh\n${text}\n`);
    await chmod(path, 0o755);
  }

  /** Types lines into one shell, and resolves with what they print. Rejects when the last of them fails. */
  async type(lines: string, environment: Environment = this.environment, cwd = this.folder): Promise<string> {
    const { stdout } = await run('/bin/sh', ['-c', lines], { cwd, env: environment, timeout: PATIENCE_MS });
    return stdout;
  }

  /** Types a line that runs until the test is over, unless it is ended before. */
  leaveRunning(line: string, environment: Environment = this.environment): LeftRunning {
    const left = new LeftRunning(
      spawn('/bin/sh', ['-c', line], { cwd: this.folder, env: environment, detached: true }),
    );
    atTestEnd(() => left.end());
    return left;
  }
}

export class LeftRunning {
  /** What it printed so far. */
  printed = '';
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;

  constructor(child: ChildProcess) {
    this.#child = child;
    this.#ended = once(child, 'close');
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (text) => (this.printed += String(text)));
  }

  async end(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) signal(-(this.#child.pid ?? 0), 'SIGTERM');
    await this.#ended;
  }
}
