/**
 * The documents of the control socket, for both of its ends. Times are milliseconds since 1970.
 *
 * Lists are NDJSON, a document a line; errors are problem documents, as on the public routes.
 */
import Type from 'typebox';
import type { HostShown, RelayFault, SharedLogShown, WitnessShown } from '../../protocol/operator-documents.ts';
import type { PublicKey } from '../../protocol/public-key.ts';

export type HostDocument = HostShown & { host_pubkey: PublicKey; rotated_to: PublicKey | null };

export interface FoundHostDocument {
  host: HostDocument;
  /** Says whether a key was named that the host has given up: `host` is what it is now. */
  is_former_key: boolean;
}

export interface RevokedHostDocument {
  host: HostDocument;
  /** False when it was revoked before. */
  is_new: boolean;
}

export interface InviteDocument {
  label: string;
  issued_at: number;
  expires_at: number;
}

export interface IssuedInviteDocument extends InviteDocument {
  /** Only this shows it: the relay keeps its hash. */
  token: string;
  /** Says whether this relay asks for an invite at all. */
  admission: 'open' | 'invite';
}

/** A header of a backup: how many bytes it will have, about. */
export const BACKUP_BYTES_ABOUT = 'x-backup-bytes-about';

/** One line of the check of the rows; the last one is a report, or says that it was stopped. */
export type RowsCheckDocument =
  | { type: 'progress'; stage: string; done: number; of: number | null }
  | {
      type: 'report';
      findings: { code: string; message: string }[];
      found: number;
      lsn: number;
      replayed_from: number;
      records: number;
      rows: number;
      busy_ms: number;
      duration_ms: number;
    }
  | { type: 'failed' };

/** A check may take this share of one processor, in percent. */
export const VerifyRequest = Type.Object({ cpu_percent: Type.Integer({ minimum: 1, maximum: 100 }) });

export interface EpochDocument {
  epoch: string;
}

/** Says how a relay that runs, or a standby, is, for `poste relay doctor`. */
export interface StatusDocument {
  version: string;
  pid: number;
  role: 'alone' | 'leading' | 'following';
  is_ready: boolean;
  /** The address for hosts, `host:port`, as it was asked for. */
  listen: string;
  tls: { cert_file: string; key_file: string } | null;
  /** The HTTP server that hosts speak to. */
  server: string;
  /** The one that `--server` asks for; null where the relay chose. */
  server_asked: 'uws' | 'node' | null;
  open_files_max: number;
  /** The connections of hosts; null while it follows. */
  connections: { open: number; max: number } | null;
  disk_floor_bytes: number;
  schema_version: number;
  position_file: string;
  /** The faults that it has now, the worst first, as its console shows them. */
  faults: RelayFault[];
  /** The time at which the last good backup was taken; null before any. */
  last_backup_at: number | null;
  /** The regular backups; null without them. */
  backups: { folder: string; every_ms: number } | null;
  log_archive_folder: string | null;
  shared_log: SharedLogShown | null;
  /** The witnesses that it asks to cosign its log. */
  witnesses: readonly WitnessShown[];
}

/** A bound that no name, fingerprint or key reaches. */
const REFERENCE_CHARACTERS_MAX = 100;

/** The form in which a request names a host. */
export const HostNamed = Type.Object({
  host: Type.String({ maxLength: REFERENCE_CHARACTERS_MAX, description: 'a fingerprint, a public key or a name' }),
});

/** A URL with a one-time token, by which a browser on this machine gets in. */
export interface ConsoleUrlDocument {
  url: string;
  expires_at: number;
}

/** Every request of the control socket, and the document of its answer; of a list, that of one line. */
export interface ControlRequests {
  'GET /v1/status': StatusDocument;
  'GET /v1/hosts': HostDocument;
  'GET /v1/hosts/find': FoundHostDocument;
  'POST /v1/hosts/revoke': RevokedHostDocument;
  'GET /v1/invites': InviteDocument;
  'POST /v1/invites': IssuedInviteDocument;
  'POST /v1/verify': RowsCheckDocument;
  'POST /v1/epoch': EpochDocument;
  'POST /v1/console': ConsoleUrlDocument;
  /** The answer is the bytes of a backup. */
  'GET /v1/backup': never;
}
