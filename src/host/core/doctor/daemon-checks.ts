/** Whether the daemon runs, and what its store is when it does not. Pure. */
import { shellWord } from '../../../protocol/shell-word.ts';
import { type Check, broken, note, ok } from './check.ts';

export type DaemonFacts =
  | { type: 'running'; version: string; pid: number }
  /** It answers, and not to this version of the command. */
  | { type: 'other-version' }
  /** Nobody listens at the socket. */
  | { type: 'absent'; store: StoreFacts }
  /** Somebody listens there and no answer came; `message` is a clause. */
  | { type: 'unusable'; code: string; message: string };

/** As whoever opened the store found it. */
export type StoreFacts =
  | { type: 'opens' }
  /** `message` is a clause. */
  | { type: 'refused'; fault: 'absent' | 'locked' | 'newer' | 'damaged' | 'unusable'; message: string }
  /** Not opened: it is not the user's own. */
  | { type: 'foreign' };

export interface DaemonPlace {
  /** Of the command. */
  version: string;
  store: string;
  /** Whether systemd keeps the daemon. */
  isUnit: boolean;
}

const DAEMON = { area: 'daemon', id: 'daemon' } as const;
const STORE = { area: 'daemon', id: 'store' } as const;

export function daemonChecks(facts: DaemonFacts, place: DaemonPlace): Check[] {
  const restart = place.isUnit
    ? 'systemctl --user restart poste.service'
    : 'kill <process of poste daemon>; poste daemon';
  switch (facts.type) {
    case 'running': {
      const { version, pid } = facts;
      const sentence = `runs as process ${pid}, version ${version}`;
      if (version === place.version) return [ok(DAEMON, sentence), ok(STORE, `${place.store} is open`)];
      const command = place.isUnit ? restart : `kill ${pid}; poste daemon`;
      return [note(DAEMON, `${sentence}; this command is version ${place.version}`, command)];
    }
    case 'other-version':
      return [broken(DAEMON, 'the running daemon is of another version than this command', restart)];
    case 'unusable':
      return [broken(DAEMON, facts.message, facts.code === 'NOT_THE_OWNER' ? null : restart)];
    case 'absent':
      return absent(facts.store, place);
    default:
      return assertNever(facts);
  }
}

function absent(facts: StoreFacts, { store, isUnit }: DaemonPlace): Check[] {
  const start = isUnit ? 'systemctl --user start poste.service' : 'poste daemon';
  const notRunning = broken(DAEMON, 'does not run: nothing is sent, received or told to agents', start);
  switch (facts.type) {
    case 'opens':
      return [notRunning, ok(STORE, `${store} opens`)];
    case 'foreign':
      return [notRunning];
    case 'refused':
      return refused(facts, store, notRunning);
    default:
      return assertNever(facts);
  }
}

/** A store that cannot be used is why no daemon runs: it comes first. */
function refused(facts: Extract<StoreFacts, { type: 'refused' }>, store: string, notRunning: Check): Check[] {
  const { fault, message } = facts;
  switch (fault) {
    case 'absent':
      return [broken(STORE, `${store} is not there: this host has not been made yet`, 'poste init')];
    case 'locked':
      return [
        broken(
          DAEMON,
          `something holds the store at ${store} and does not answer at the socket: a daemon that starts, stops or hangs, or a restore`,
          "pgrep -af 'poste|cli/main'",
        ),
      ];
    case 'damaged':
      return [broken(STORE, message, 'poste restore <backup>'), notRunning];
    case 'newer':
      return [broken(STORE, message, null), notRunning];
    case 'unusable':
      return [broken(STORE, message, `ls -la ${shellWord(store)}`), notRunning];
    default:
      return assertNever(fault);
  }
}

function assertNever(value: never): never {
  throw new Error(`invariant: ${JSON.stringify(value)} is none of its kind`);
}
