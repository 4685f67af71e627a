/** `poste doctor`: checks everything about this host, and shows the command that repairs what is broken. */
import { getuid } from 'node:process';
import type { Command } from 'commander';
import type { Check, CheckArea, DoctorResult } from '../../host/contract/daemon.ts';
import {
  daemonChecks,
  type DaemonFacts,
  type DaemonPlace,
  idleStore,
  placeChecks,
  placeFacts,
} from '../../host/doctor/local-checks.ts';
import { CallFailed, DaemonClient } from '../../host/api/client.ts';
import { type HostPaths, ownPaths } from '../../host/base/paths.ts';
import { JSON_FLAG } from '../lib/format.ts';
import { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { reportChecks } from '../lib/checks.ts';
import { goneCheckouts, installedChecks } from './installed.ts';
import { isServiceThere } from '../lib/service-manager.ts';
import { softwareVersion } from '../../lib/package-root.ts';

const NOTES = `
Checks the config, the folders, the daemon and its store, and whether what Poste wrote for other programs (hooks, mail
tools, the service) runs programs that are there. Then the daemon checks every paired host, the relay (its key, epoch
and clock, and what it knows about this host), the mail that waits or is in quarantine, and how agents can be woken.
Nothing is changed. If something is broken, the command ends with 1, and shows below each broken check the command that
repairs it. Without a daemon it checks what can be checked without one.

Examples:
  $ poste doctor
  $ poste doctor --json`;

const TITLES: Readonly<Record<CheckArea, string>> = {
  host: 'This host',
  daemon: 'The daemon',
  peers: 'Paired hosts',
  relay: 'The relay',
  mail: 'Mail on its way',
  wake: 'Agents',
};

interface Examined {
  /** Null while no daemon answers. */
  host: string | null;
  fingerprint: string | null;
  checks: Check[];
}

export function doctorCommand(context: CommandContext): Command {
  return new CommandDraft(context, 'doctor')
    .option(...JSON_FLAG)
    .notes(NOTES)
    .action(async ({ json }) => {
      const { host, fingerprint, checks } = await examine(context);
      const head = host === null ? '' : `Host ${host}, ${fingerprint}`;
      reportChecks(context, { checks, titles: TITLES, head, subject: { host, fingerprint } }, json ?? false);
    });
}

async function examine(context: CommandContext): Promise<Examined> {
  const paths = ownPaths(context);
  const place = await placeFacts({ paths, environment: context.env, userId: getuid?.() });
  const here: DaemonPlace = {
    version: softwareVersion(),
    store: paths.store,
    isUnit: isServiceThere(context),
  };
  const local = [...placeChecks(place), ...installedChecks(context), ...goneCheckouts(context)];
  const asked = await askDaemon(paths);
  if ('checks' in asked) {
    const { host, fingerprint, checks, ...running } = asked;
    return { host, fingerprint, checks: [...local, ...daemonChecks({ type: 'running', ...running }, here), ...checks] };
  }
  const unnamed = { host: null, fingerprint: null };
  if (asked.type !== 'absent') return { ...unnamed, checks: [...local, ...daemonChecks(asked, here)] };
  const { store, checks } = await idleStore(paths, place, Date.now());
  return { ...unnamed, checks: [...local, ...daemonChecks({ type: 'absent', store }, here), ...checks] };
}

async function askDaemon({
  socket,
  store,
}: HostPaths): Promise<DoctorResult | Exclude<DaemonFacts, { type: 'running' }> | { type: 'absent' }> {
  try {
    return await new DaemonClient(socket, store).call('doctor', {});
  } catch (error) {
    if (!(error instanceof CallFailed)) throw error;
    const { code, message } = error;
    if (code === 'DAEMON_NOT_RUNNING') return { type: 'absent' };
    return code === 'NOT_UNDERSTOOD' ? { type: 'other-version' } : { type: 'unusable', code, message };
  }
}
