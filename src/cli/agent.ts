/** `poste agent`: the agents of this host, as its owner manages them. */
import { Command } from 'commander';
import type { AgentDocument } from '../host/documents/agents.ts';
import { type DaemonFlags, ask, withDaemonFlags } from './daemon-call.ts';
import { jsonLine, table, timeText } from './text.ts';

const NOTES = `
Mail to a former name of an agent is forwarded to it. A removed agent's mail is dropped.

Examples:
  $ poste agent add reviewer --role review
  $ poste agent rename reviewer critic
  $ poste agent roles critic review security
  $ poste agent list
  $ poste agent remove critic`;

export function agentCommand(): Command {
  return new Command('agent')
    .description('Add, rename, list and remove the agents of this host.')
    .addCommand(addCommand())
    .addCommand(renameCommand())
    .addCommand(rolesCommand())
    .addCommand(listCommand())
    .addCommand(removeCommand())
    .addHelpText('after', NOTES);
}

const ONE = 'print the agent as one JSON document';

function addCommand(): Command {
  const command = new Command('add').description('Give an agent a mailbox.').argument('<name>', "the agent's name");
  return withDaemonFlags(command.option('--role <role...>', 'what role:<role> finds it by'), ONE)
    .addHelpText('after', '\nExample:\n  $ poste agent add reviewer --role review')
    .action(async (name: string, flags: DaemonFlags & { role?: string[] }) => {
      const agent = await ask('add-agent', { name, ...(flags.role && { roles: flags.role }) }, flags);
      process.stdout.write(flags.json ? jsonLine(agent) : `${agent.address} has a mailbox.\n`);
    });
}

function renameCommand(): Command {
  const command = new Command('rename')
    .description('Call an agent otherwise; mail to the old name is forwarded.')
    .argument('<name>', 'what it is called now')
    .argument('<new-name>', 'what it is to be called');
  return withDaemonFlags(command, ONE)
    .addHelpText('after', '\nExample:\n  $ poste agent rename reviewer critic')
    .action(async (name: string, newName: string, flags: DaemonFlags) => {
      const agent = await ask('rename-agent', { name, new_name: newName }, flags);
      process.stdout.write(flags.json ? jsonLine(agent) : `It is ${agent.address} now.\n`);
    });
}

function rolesCommand(): Command {
  const command = new Command('roles')
    .description('Give an agent these roles instead of those it has.')
    .argument('<name>', "the agent's name")
    .argument('[roles...]', 'none to take all away');
  return withDaemonFlags(command, ONE)
    .addHelpText('after', '\nExample:\n  $ poste agent roles critic review security')
    .action(async (name: string, roles: string[], flags: DaemonFlags) => {
      const agent = await ask('set-agent-roles', { name, roles }, flags);
      const text = `${agent.address} has ${agent.roles.length === 0 ? 'no role' : agent.roles.join(', ')}.\n`;
      process.stdout.write(flags.json ? jsonLine(agent) : text);
    });
}

function listCommand(): Command {
  return withDaemonFlags(new Command('list').description('List them.'), 'print them as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste agent list --json')
    .action(async (flags: DaemonFlags) => {
      const list = await ask('list-agents', {}, flags);
      process.stdout.write(flags.json ? jsonLine(list) : listText(list.agents));
    });
}

function listText(agents: readonly AgentDocument[]): string {
  if (agents.length === 0) return 'There is no agent: add one with poste agent add.\n';
  return table<AgentDocument>(
    [
      { title: 'NAME', cell: ({ name }) => name },
      { title: 'ROLES', cell: ({ roles }) => roles.join(',') },
      { title: 'PRESENCE', cell: ({ presence }) => presence },
      { title: 'UNREAD', cell: ({ unread }) => String(unread), isNumber: true },
      { title: 'MAIL', cell: ({ total }) => String(total), isNumber: true },
      { title: 'SINCE', cell: ({ created_at }) => timeText(created_at) },
      { title: 'FORMERLY', cell: ({ former_names }) => former_names.join(',') },
    ],
    agents,
  );
}

function removeCommand(): Command {
  const command = new Command('remove')
    .description('Take an agent away, and all that its mailbox holds.')
    .argument('<name>', "the agent's name");
  return withDaemonFlags(command, 'print what was removed as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste agent remove critic')
    .action(async (name: string, flags: DaemonFlags) => {
      const removed = await ask('remove-agent', { name }, flags);
      const text = `${removed.name} is removed, with ${removed.dropped} messages (${removed.dropped_unread} unread).\n`;
      process.stdout.write(flags.json ? jsonLine(removed) : text);
    });
}
