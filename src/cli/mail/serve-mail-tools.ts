/**
 * Serves the mail tools to the client at the streams of a command. The build bundles it as a file of its own, since
 * most of it is the server of the protocol: `poste mcp` answers what clients begin with before it loads this.
 */
import { CallFailed, DaemonClient } from '../../host/api/client.ts';
import type { HostPaths } from '../../host/base/paths.ts';
import { claudeInboxOf } from '../../host/mcp/agent-session.ts';
import type { RequestId } from '../../host/mcp/opening-messages.ts';
import { serveMcp } from '../../host/mcp/serve.ts';
import { softwareVersion } from '../../lib/package-root.ts';
import { printable } from '../../protocol/printable.ts';
import type { CommandContext } from '../lib/context.ts';
import { startServiceOrDaemon } from '../lib/daemon-start.ts';
import { CommandFailed } from '../lib/exit.ts';

export interface MailToolsOptions {
  paths: HostPaths;
  agent: string;
  start: boolean;
  wakeUnattended: boolean;
  /** Resolves when a signal tells the process to end. */
  signalled: Promise<unknown>;
  /** Requests that come from standard input and were answered before. */
  answered: ReadonlySet<RequestId>;
}

/** Resolves when the client has disconnected, or at a signal. */
export async function serveMailTools(
  context: CommandContext,
  { paths, agent, start, wakeUnattended, signalled, answered }: MailToolsOptions,
): Promise<void> {
  const served = serveMcp({
    client: new DaemonClient(paths.socket, paths.store, { keepsConnection: true }),
    agent,
    version: softwareVersion(),
    log: (message) => context.stderr.write(`poste mcp: ${printable(message)}.\n`),
    streams: context,
    answered,
    inbox: claudeInboxOf(context.env, wakeUnattended),
    parentPid: () => process.ppid,
    start: start ? () => startServiceOrDaemon(context, paths).catch(refuse) : undefined,
  });
  await Promise.race([served.ended, signalled]);
  await served.close();
}

function refuse(error: unknown): never {
  if (!(error instanceof CommandFailed)) throw error;
  throw new CallFailed(error.code, 0, error.message, error.details);
}
