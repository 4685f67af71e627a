/** `poste status`: how the daemon of this host is. */
import { Command } from 'commander';
import type { StatusResult } from '../host/documents/status.ts';
import { type DaemonFlags, ask, withDaemonFlags } from './daemon-call.ts';
import { jsonLine, timeText } from './text.ts';

const NOTES = `
Examples:
  $ poste status
  $ poste status --json`;

export function statusCommand(): Command {
  const command = new Command('status').description('Show how the daemon of this host is.');
  return withDaemonFlags(command, 'print it as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (flags: DaemonFlags) => {
      const status = await ask('status', {}, flags);
      process.stdout.write(flags.json ? jsonLine(status) : textOf(status));
    });
}

function textOf(status: StatusResult): string {
  const rows = [
    ['fingerprint', status.fingerprint],
    ['running', `since ${timeText(status.started_at)}, process ${status.pid}, version ${status.version}`],
    ['agents', String(status.agents)],
    ['for you', `${status.owner_unread} unread`],
    ['store', status.store],
    ['config', status.config],
    ['socket', status.socket],
  ];
  return `Host ${status.host}\n${rows.map(([name = '', value = '']) => `  ${name.padEnd(12)} ${value}\n`).join('')}`;
}
