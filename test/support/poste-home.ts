/**
 * A folder with a host in it. Commands run in this process; its daemon does too, unless a test wants one that it can
 * kill. Call these inside a test.
 */
import { join } from 'node:path';
import { DaemonClient } from '../../src/host/api/client.ts';
import type { InviteResult } from '../../src/host/contract/peers.ts';
import { type Ended, type Environment, type PosteProcess, poste, run } from './poste-process.ts';
import { type CommandRun, daemonHere, runHere } from './command-run.ts';
import { temporaryFolder } from './temporary-folder.ts';

export class PosteHome {
  readonly folder: string;
  readonly environment: Environment;
  /** Asks its daemon, when it runs. */
  readonly client: DaemonClient;

  constructor(folder: string, environment: Environment = {}) {
    this.folder = folder;
    this.environment = { POSTE_HOME: folder, POSTE_LAN_LISTEN: '127.0.0.1:0', ...environment };
    this.client = new DaemonClient(join(folder, 'daemon.sock'), join(folder, 'store'));
  }

  run(...args: string[]): Promise<Ended> {
    return this.runWith('', ...args);
  }

  /** A command that reads this from standard input. */
  runWith(stdin: string, ...args: string[]): Promise<Ended> {
    return runHere(args, { environment: this.environment, stdin });
  }

  /** A command as a process of its own. */
  runProcess(...args: string[]): Promise<Ended> {
    return run(args, this.environment);
  }

  /** Returns what a command prints as JSON; fails when it fails. */
  async json<T>(...args: string[]): Promise<T> {
    const { code, stdout, stderr } = await this.run(...args, '--json');
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
    return JSON.parse(stdout) as T;
  }

  /** A daemon in this process. */
  daemon(): Promise<CommandRun> {
    return daemonHere(this.environment);
  }

  async daemonProcess(): Promise<PosteProcess> {
    const daemon = poste(['daemon', '--json', '--log-level', 'warn'], this.environment);
    await daemon.printed('}\n');
    return daemon;
  }
}

/** A new host, without a daemon. On the LAN it listens on a free port of this machine alone. */
export async function posteHome(hostName = 'here', environment: Environment = {}): Promise<PosteHome> {
  const made = new PosteHome(join(await temporaryFolder(), 'poste'), environment);
  await made.json('init', '--host', hostName);
  return made;
}

/** The commands of both: `there` accepts, as `here` has named it. Resolves with how the accepting one ended. */
export async function pairHomes(here: PosteHome, there: PosteHome): Promise<Ended> {
  const { fingerprint } = await there.client.call('status', {});
  const { code, addresses } = await here.json<InviteResult>('peer', 'invite', '--fingerprint', fingerprint);
  return there.runWith(code, 'peer', 'accept', addresses[0] ?? '', '--json');
}

/** Ends a daemon that a command started in the background, and waits until it has gone. */
export async function endDaemon(pid: number | undefined): Promise<void> {
  if (pid === undefined) return;
  process.kill(pid, 'SIGKILL');
  for (;;) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await new Promise((resolve) => {
      setTimeout(resolve, 10);
    });
  }
}
