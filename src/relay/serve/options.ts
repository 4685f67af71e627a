/** The options that a relay is started with, and the surface of a started relay. */
import { type ListenAddress, isLoopback } from '../../lib/listen-address.ts';
import type { Listen } from '../../http/exchange.ts';
import type { TlsFiles } from '../../http/tls-files.ts';
import type { Clock, RandomBytes, Timers } from '../../lib/clock.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Limits } from '../../protocol/limits.ts';
import type { IssuerSettings } from '../auth/issuer.ts';
import type { Signatures } from '../auth/signature-thread.ts';
import type { AskedLimits } from './connection-limits.ts';
import type { RelaySettings } from '../core/decision.ts';
import type { StoreFailed } from '../engine/committer.ts';
import type { Engine } from '../engine/engine.ts';
import type { TrustProxy } from '../http/handler.ts';
import type { BackupSettings } from '../jobs/backup-job.ts';
import type { LogRetentionSettings } from '../jobs/retention-job.ts';
import type { StartRowsCheck } from '../jobs/rows-check.ts';
import type { WitnessSettings } from '../jobs/witnesses.ts';
import type { TakeBackup } from '../operator/relay-state.ts';
import type { HeldBytes } from '../http/page-writer.ts';
import type { PositionPlace } from '../store/position.ts';
import type { HandOver, SharedLogOptions } from '../shared-log/node-options.ts';

export interface RelayOptions extends PositionPlace {
  storeDir: string;
  /** The log that this relay shares with others; absent: its store holds the log. */
  sharedLog?: SharedLogOptions;
  /** Ends the wait of a relay that follows. */
  stopFollowing?: AbortSignal;
  /** The key of the deploy secret; absent: the one beside the store. */
  signer?: Signer;
  listen: ListenAddress;
  /** The certificate of the listener of hosts; absent: it speaks plain HTTP. */
  tls?: TlsFiles;
  /** `undefined`: no operator listener. */
  adminListen: ListenAddress | undefined;
  limits: Limits;
  pushesPerMinute: number;
  enrolRate: number;
  enrolmentsMax: number;
  admission: RelaySettings['admission'];
  /** Says whether hops of v1 are taken; absent: they are. */
  takesV1?: boolean;
  dedupRowsMax: number;
  mailBudgetBytes?: number;
  /** The issuer whose account tokens admit hosts; absent: the host-key challenge alone does. */
  issuer?: IssuerSettings;
  sweepMs: number;
  /** Regular backups; absent: none. */
  backups?: BackupSettings;
  /** The time for which the log is kept; absent: for ever. */
  logRetention?: LogRetentionSettings;
  /** The witnesses that cosign its checkpoints, at most `WITNESSES_MAX`; absent: nobody does. */
  witnesses?: readonly WitnessSettings[];
  /** Pushes are refused while less than this is free on the disk of the store. */
  diskFloorBytes: number;
  /** The free bytes; absent: asked of the file system. */
  freeBytes?: () => Promise<number>;
  trustProxy: TrustProxy;
  /** The number of connections that are open at once; absent: derived from the open-files limit. */
  connections?: AskedLimits;
  /** The number of files that this process may open; absent: asked of the system. */
  openFilesMax?: number;
  /** Largest request body of the routes with a hop. */
  bodyBytesMax: number;
  /** The bytes that request bodies and pages may hold in memory; absent: `HELD_BYTES`. */
  heldBytes?: HeldBytes;
  version: string;
  /** The folder of the console's page; absent: where the build puts it. */
  consoleFolder?: string;
  /** Writes a backup when the console asks for one; absent: the regular backups do, if there are any. */
  takeBackup?: TakeBackup;
  /** Compares the rows with the log; absent: a thread does, where this program was built. */
  startRowsCheck?: StartRowsCheck;
  /** The server to use; absent: uWebSockets.js where one runs, else node:http. */
  server?: 'uws' | 'node';
  /** Listens for hosts in the place of either. */
  listenHere?: Listen;
  /** Verifies the signature of a hop in the place of `SignatureThread.verify`: a rehearsal has nobody's keys. */
  verifyHop?: Signatures['verify'];
  clock: Clock;
  timers: Timers;
  randomBytes: RandomBytes;
  log: RelayLogger;
}

interface RelayLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** The number of lines that could not be written since the start; absent: none. */
  linesLost?: () => number;
}

export interface Relay {
  readonly engine: Engine;
  readonly signer: Signer;
  /** Says whether this start created the store. */
  readonly initialised: boolean;
  /** The sentences that say what the start found and did. */
  readonly notices: readonly string[];
  readonly serverName: string;
  /** Says why it is not the faster one, if nobody asked for that. */
  readonly serverWhy: string | undefined;
  readonly port: number;
  readonly adminPort: number | undefined;
  /** Resolves when the store failed: the process must exit non-zero. */
  readonly failed: Promise<StoreFailed>;
  /** Resolves when this node of a shared log is to stop and to start again: it follows then, until it leads. */
  readonly handedOver: Promise<HandOver>;
  /** Ends readiness, accepts nothing new, finishes requests within `STOP_WITHIN_MS`, flushes and closes. */
  stop(): Promise<void>;
}

/** Says what it means that anybody may enrol, where more than this machine reaches the relay. */
export function openNotices({
  admission,
  issuer,
  listen,
  trustProxy,
}: Pick<RelayOptions, 'admission' | 'issuer' | 'listen' | 'trustProxy'>): string[] {
  if (admission === 'invite' || issuer || (isLoopback(listen.host) && trustProxy === 'none')) return [];
  return [
    'Anybody who reaches this relay may enrol, push to hosts that published no sender list, and fill its disk ' +
      'up to a part of --mail-budget. With --admission invite only hosts with a token of poste relay admit get in.',
  ];
}
