/**
 * The commands that the small file of client.ts leaves out, each with the modules by which commands.ts loads it: a
 * file, or a folder. Most do more than ask the daemon and print its answer, or are rare. `relay` is left out whole, as
 * its first word is all that main.ts looks at.
 */
export const LARGE_COMMANDS: Readonly<Record<string, readonly string[]>> = {
  backup: ['./host/backup.ts'],
  daemon: ['./host/daemon.ts'],
  doctor: ['./host/doctor.ts'],
  hooks: ['./mail/hooks.ts'],
  host: ['./host/host.ts'],
  init: ['./host/init.ts'],
  peer: ['./host/peers.ts'],
  quarantine: ['./mail/quarantine.ts'],
  relay: [
    './relay/',
    './host/relay.ts',
    './host/relay-list.ts',
    './host/relay-move.ts',
    './host/relay-evidence.ts',
    './mail/quarantine.ts',
  ],
  restore: ['./host/backup.ts'],
  run: ['./mail/run.ts'],
  setup: ['./host/setup.ts'],
  status: ['./host/host.ts'],
  trace: ['./mail/trace.ts'],
};
