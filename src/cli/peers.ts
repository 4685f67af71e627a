/** `poste peers`: the hosts that this one is paired with. */
import { Command } from 'commander';
import type { PeerView } from '../host/documents/peers.ts';
import { type DaemonFlags, ask, withDaemonFlags } from './daemon-call.ts';
import { jsonLine, table, timeText } from './text.ts';
import { lanAddress } from './values.ts';

const NOTES = `
A host is named by its name or its fingerprint (SHA256:...). One that moves is found again when it calls; address says
where it is to be called when it cannot be found.

Examples:
  $ poste peers
  $ poste peers --json
  $ poste peers address laptop 192.168.1.9:8789`;

export function peersCommand(): Command {
  return new Command('peers')
    .description('Show the hosts that this one is paired with.')
    .addCommand(listCommand(), { isDefault: true })
    .addCommand(addressCommand())
    .addHelpText('after', NOTES);
}

function listCommand(): Command {
  return withDaemonFlags(new Command('list').description('List them.'), 'print them as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste peers list --json')
    .action(async (flags: DaemonFlags) => {
      const list = await ask('peers', {}, flags);
      process.stdout.write(flags.json ? jsonLine(list) : listText(list.peers));
    });
}

function addressCommand(): Command {
  const command = new Command('address')
    .description('Say where a paired host listens.')
    .argument('<host>', 'its name or fingerprint')
    .argument('<address>', 'host:port', lanAddress);
  return withDaemonFlags(command, 'print the host as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste peers address laptop 192.168.1.9:8789')
    .action(async (host: string, address: string, flags: DaemonFlags) => {
      const peer = await ask('peer-address', { host, address }, flags);
      process.stdout.write(flags.json ? jsonLine(peer) : `${peer.host} is called at ${peer.address} from now on.\n`);
    });
}

function listText(peers: readonly PeerView[]): string {
  if (peers.length === 0) return 'This host is paired with no other: see poste pair --help.\n';
  return table<PeerView>(
    [
      { title: 'HOST', cell: ({ host }) => host },
      { title: 'ADDRESS', cell: ({ address }) => address ?? '-' },
      { title: 'REACHED', cell: reachedText },
      { title: 'AGENTS', cell: ({ agents }) => (agents === null ? '-' : String(agents)), isNumber: true },
      { title: 'PAIRED', cell: ({ paired_at }) => timeText(paired_at) },
      { title: 'FINGERPRINT', cell: ({ fingerprint }) => fingerprint },
    ],
    peers,
  );
}

function reachedText({ reached_at, lan_failures }: PeerView): string {
  const reached = reached_at === null ? 'never' : timeText(reached_at);
  return lan_failures === 0 ? reached : `${reached}, ${lan_failures} failed since`;
}
