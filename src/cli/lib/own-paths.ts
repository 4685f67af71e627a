/** Where the host of this user lies, by the environment. It loads little, as hooks need it. */
import { type HostPaths, hostPaths, ownsFolder } from '../../host/base/paths.ts';
import type { CommandContext } from './context.ts';

/** The home folder of the user. */
export function homeFolder({ env }: CommandContext): string {
  return env['HOME'] ?? process.getBuiltinModule('node:os').homedir();
}

export function ownPaths(context: CommandContext): HostPaths {
  return hostPaths({
    environment: context.env,
    homeFolder: homeFolder(context),
    workingFolder: process.cwd(),
    userId: process.getuid?.(),
    owns: ownsFolder,
  });
}
