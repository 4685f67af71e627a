/**
 * The commands that do more than ask the daemon and print its answer, each with the modules by which commands.ts loads it:
 * a file, or a folder. Every other command is also in one small file (client.ts).
 */
export const LARGE_COMMANDS: Readonly<Record<string, readonly string[]>> = {
  backup: ['./host/backup.ts'],
  daemon: ['./host/daemon.ts'],
  doctor: ['./host/doctor.ts'],
  hooks: ['./mail/hooks.ts'],
  init: ['./host/init.ts'],
  mcp: ['./mail/mcp.ts'],
  relay: ['./relay/', './host/relay.ts'],
  restore: ['./host/restore.ts'],
  setup: ['./host/setup.ts'],
  trace: ['./mail/trace.ts'],
};
