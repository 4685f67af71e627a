/** Where the host of this user lies, by the environment. It loads little, as hooks need it. */
import { homedir } from 'node:os';
import { getuid } from 'node:process';
import { type HostPaths, hostPaths, ownsFolder } from '../../host/paths.ts';
import type { CommandContext } from './context.ts';

/** The home folder of the user. */
export function homeFolder({ env }: CommandContext): string {
  return env['HOME'] ?? homedir();
}

export function ownPaths(context: CommandContext): HostPaths {
  return hostPaths({
    environment: context.env,
    homeFolder: homeFolder(context),
    workingFolder: process.cwd(),
    userId: getuid?.(),
    owns: ownsFolder,
  });
}
