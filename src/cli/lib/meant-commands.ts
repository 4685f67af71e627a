/** The commands that people mean by words of other programs, where there is no command of that name. */

/** The words that may be meant by each name of a command, without `poste`: commands, and a flag of the last one. */
export const MEANT_COMMANDS: Readonly<Record<string, readonly string[]>> = {
  ack: ['inbox ack'],
  answer: ['reply'],
  list: ['inbox'],
  ls: ['inbox'],
  mail: ['inbox'],
  messages: ['inbox'],
  open: ['inbox --web'],
  read: ['inbox read'],
  search: ['inbox search'],
  show: ['inbox read'],
  thread: ['inbox thread'],
  unread: ['inbox'],
  watch: ['inbox --follow'],
  web: ['inbox --web'],
  write: ['send'],

  logs: ['daemon logs'],
  restart: ['daemon restart'],
  start: ['daemon'],
  stop: ['daemon stop'],
  install: ['setup'],
  undo: ['setup --undo'],
  uninstall: ['setup --undo'],

  accept: ['peer accept'],
  hosts: ['peer'],
  invite: ['peer invite'],
  pair: ['peer invite', 'peer accept'],
  peers: ['peer'],
  unpair: ['peer remove'],

  add: ['agent add', 'peer invite'],
  agents: ['agent'],
  roles: ['agent roles'],
  whoami: ['agent', 'status'],

  cancel: ['outbox cancel'],
  delete: ['agent remove', 'peer remove', 'outbox cancel'],
  discard: ['quarantine discard'],
  remove: ['agent remove', 'peer remove', 'relay remove', 'outbox cancel'],
  rename: ['agent rename', 'host rename'],
  retry: ['quarantine retry'],
  rm: ['agent remove', 'peer remove', 'outbox cancel'],

  keygen: ['relay keygen'],
  serve: ['relay serve'],
  verify: ['relay log verify'],
  'daemon run': ['daemon'],
  'daemon start': ['daemon'],
  'daemon status': ['status'],
  'relay ls': ['relay list', 'relay hosts'],
  'relay run': ['relay serve'],
  'relay start': ['relay serve'],
  'relay verify': ['relay log verify'],
};

/** The line that names what a command that is not there may mean; undefined where nothing is known. */
export function meantLine(name: string): string | undefined {
  const meant = Object.hasOwn(MEANT_COMMANDS, name) ? MEANT_COMMANDS[name] : undefined;
  return meant && `(Did you mean ${meant.map((one) => `poste ${one}`).join(' or ')}?)`;
}
