/** The agent of a session in the working folder, for the commands that a program starts there. */
import {
  chosenAgent,
  type ProjectAgents,
  ProjectsUnreadable,
  readProjectAgents,
} from '../../host/base/project-agents.ts';
import { ownPaths } from '../../host/base/paths.ts';
import type { CommandContext } from './context.ts';
import { CommandFailed } from './exit.ts';

interface AgentNames {
  given: string | undefined;
  program: string | undefined;
  byDefault: string | undefined;
}

/** Throws `CommandFailed`. */
export function agentHere(context: CommandContext, named: AgentNames): string | undefined {
  const choice = { ...named, environment: context.env, folder: () => process.cwd() };
  return chosenAgent(choice, () => projectsHere(context));
}

/** Throws `CommandFailed`. */
export function projectsHere(context: CommandContext): ProjectAgents {
  try {
    return readProjectAgents(ownPaths(context).dataFolder);
  } catch (error) {
    if (!(error instanceof ProjectsUnreadable)) throw error;
    throw new CommandFailed('failure', 'PROJECTS_UNREADABLE', error.message);
  }
}
