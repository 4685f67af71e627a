/** A folder with a host in it, and `poste` as processes in its environment. */
import { join } from 'node:path';
import { type Ended, type Environment, type PosteProcess, poste, run } from './poste-process.ts';
import { temporaryFolder } from './temporary-folder.ts';

export class PosteHome {
  readonly folder: string;
  readonly environment: Environment;

  constructor(folder: string, environment: Environment = {}) {
    this.folder = folder;
    this.environment = { POSTE_HOME: folder, ...environment };
  }

  run(...args: string[]): Promise<Ended> {
    return run(args, this.environment);
  }

  /** What a command prints as JSON; fails when it fails. */
  async json<T>(...args: string[]): Promise<T> {
    const { code, stdout, stderr } = await this.run(...args, '--json');
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
    return JSON.parse(stdout) as T;
  }

  async daemon(): Promise<PosteProcess> {
    const daemon = poste(['daemon', '--json', '--log-level', 'warn'], this.environment);
    await daemon.printed('}\n');
    return daemon;
  }
}

/** A new host. */
export async function posteHome(hostName = 'here', environment: Environment = {}): Promise<PosteHome> {
  const made = new PosteHome(join(await temporaryFolder(), 'poste'), environment);
  await made.json('init', '--host', hostName);
  return made;
}
