/**
 * Says how many connections a relay may hold: by how many files its process may open, less those that the store and the
 * operator need. At that limit LevelDB cannot open its tables, and whatever opens a file fails.
 */
import { type ConnectionLimits, Connections, type Displacement } from '../../http/connections.ts';
import type { TrustProxy } from '../http/handler.ts';

/** LevelDB takes a fifth of all files for its tables, and at most so many. */
const STORE_FILES_SHARE = 1 / 5;
const STORE_FILES_MAX = 1_000;
/** The operator's listener and the local socket with their connections, backups, archives, the log of the database. */
const OTHER_FILES = 256;
/** Connections of the operator's listener at once. */
export const OPERATOR_CONNECTIONS_MAX = 64;

/** The share of what is left that is used unless an operator says otherwise, and no more than that many. */
const DEFAULT_SHARE = 3 / 4;
const DEFAULT_MAX = 32_768;
/** A quarter of all by default, within these: an office behind one address has hundreds of hosts. */
const DEFAULT_PER_ADDRESS_MAX = 1_024;
const DEFAULT_PER_ADDRESS_LEAST = 256;
/** Fewer are useless; below this number the operator gets a notice. */
const CONNECTIONS_LEAST = 64;
const CONNECTIONS_FEW = 1_000;

const FLOOD_TOLD_EVERY_MS = 60_000;

/** The number that counts where the system does not say how many files may be open. */
const FILES_UNKNOWN = 4_096;

/** Too few files may be open; the message says what to do. */
export class TooFewFiles extends Error {}

export interface AskedLimits {
  /** `--max-connections`. */
  max?: number;
  /** `--max-connections-per-address`. */
  perAddressMax?: number;
}

export function connectionLimits(
  asked: AskedLimits,
  openFilesMax: number,
): { limits: ConnectionLimits; notices: string[] } {
  const room = openFilesMax - reservedFiles(openFilesMax);
  const byDefault = Math.min(DEFAULT_MAX, Math.floor(room * DEFAULT_SHARE));
  const remedy = 'raise it (LimitNOFILE= of the systemd unit, --ulimit nofile= of docker, ulimit -n of a shell)';
  if (asked.max !== undefined && asked.max > room) {
    throw new TooFewFiles(
      `this process may open ${openFilesMax} files, which leaves ${Math.max(0, room)} for connections, and ` +
        `--max-connections says ${asked.max}: ${remedy}, or say fewer`,
    );
  }
  if (asked.max === undefined && byDefault < CONNECTIONS_LEAST) {
    throw new TooFewFiles(
      `this process may open ${openFilesMax} files, which are too few for a store and connections: ${remedy} to 65536`,
    );
  }
  const max = asked.max ?? byDefault;
  const quarter = Math.floor(max / 4);
  const perAddress = Math.max(DEFAULT_PER_ADDRESS_LEAST, Math.min(DEFAULT_PER_ADDRESS_MAX, quarter));
  const perAddressMax = Math.min(max, asked.perAddressMax ?? perAddress);
  const notices =
    asked.max === undefined && max < CONNECTIONS_FEW
      ? [
          `At most ${max} connections are held at once, as this process may open ` +
            `${openFilesMax} files: ${remedy} to 65536.`,
        ]
      : [];
  return { limits: { max, perAddressMax }, notices };
}

interface HostConnectionsOptions {
  limits: ConnectionLimits;
  trustProxy: TrustProxy;
  monotonicMs: () => number;
  displaced: (why: Displacement) => void;
  /** Hears that connections are closed for others; at most once in a while. */
  flooded: (told: ConnectionLimits & { why: Displacement; open: number }) => void;
}

/** The connections of the only public listener. */
export function hostConnections(options: HostConnectionsOptions): Connections {
  const { limits, trustProxy, monotonicMs, displaced, flooded } = options;
  let toldMs = Number.NEGATIVE_INFINITY;
  const connections = new Connections({
    ...limits,
    arePeersProxies: trustProxy !== 'none',
    displaced: (why) => {
      displaced(why);
      if (monotonicMs() - toldMs < FLOOD_TOLD_EVERY_MS) return;
      toldMs = monotonicMs();
      flooded({ why, open: connections.open, ...limits });
    },
  });
  return connections;
}

let openFilesKnown: number | undefined;

/**
 * Returns how many files this process may have open at once, as it was when this was first asked: a report takes 10 ms.
 */
export function openFilesMax(): number {
  return (openFilesKnown ??= openFilesReported());
}

function openFilesReported(): number {
  // Node tells of limits in its diagnostic report alone, on Linux and macOS; the names of peers are not looked up.
  Object.assign(process.report ?? {}, { excludeNetwork: true });
  const report = process.report?.getReport() as { userLimits?: { open_files?: { soft?: unknown } } } | undefined;
  const soft = report?.userLimits?.open_files?.soft;
  if (soft === 'unlimited') return Infinity;
  return typeof soft === 'number' ? soft : FILES_UNKNOWN;
}

function reservedFiles(openFilesMax: number): number {
  return OTHER_FILES + Math.min(STORE_FILES_MAX, Math.ceil(openFilesMax * STORE_FILES_SHARE));
}
