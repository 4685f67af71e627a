/**
 * Defines what the relay shows its operator, over the control socket and on the console. Times are milliseconds since
 * 1970. Names, accounts, reasons and labels are untrusted text: show them as text only.
 */
import Type, { type Static } from 'typebox';
import { INVITE_LABEL_CHARACTERS_MAX, INVITE_LIFETIME_MAX_MS, INVITE_LIFETIME_MIN_MS } from './limits.ts';
import { PAGE_PROBLEMS } from './page-documents.ts';
import { closed, Count, EpochText, HashText, ItemIdText, KeyParameter, PublicKeyText, Time, orNull } from './shapes.ts';

const Text = Type.String();
const Number = Type.Number();

/** `expired`: the relay accepts no hop of the key any more, but still accepts mail for it. */
export const HostStateWord = Type.Union([
  Type.Literal('live'),
  Type.Literal('expired'),
  Type.Literal('revoked'),
  Type.Literal('rotated'),
]);
export type HostState = Static<typeof HostStateWord>;

/** One host key that was admitted at some time. */
export const HostShown = closed({
  host: Text,
  host_pubkey: PublicKeyText,
  fingerprint: Type.String({ description: '`SHA256:…`, the form for people' }),
  state: HostStateWord,
  account: orNull(Text),
  org: orNull(Text),
  client_id: orNull(Text),
  owner_fp: Text,
  authorized_by: Text,
  enrolled_at: Time,
  valid_until: orNull(Time),
  revoked_at: orNull(Time),
  rotated_to: orNull(PublicKeyText),
  seen: Type.Boolean({ description: 'whether a signed hop of the key was ever accepted' }),
  queue_items: Type.Integer({ description: 'waiting items without expiry notices, as the quotas count them' }),
  queue_bytes: Type.Integer(),
  head_seq: Count,
  acked_through: Count,
});
export type HostShown = Static<typeof HostShown>;

export const RefusalCount = closed({
  reason: Text,
  what: Type.Union([Type.Literal('item'), Type.Literal('request')]),
  last_at: Time,
  last_minute: Count,
  last_hour: Count,
});
export type RefusalCount = Static<typeof RefusalCount>;

export const EpochBegun = closed({ lsn: Count, at: Time, epoch: EpochText, reason: Text });
export type EpochBegun = Static<typeof EpochBegun>;

/**
 * The log was read so far back for its epochs: still reading, to its beginning, to where it was pruned, or to a
 * failure.
 */
export const EpochsRead = Type.Union([
  Type.Literal('under way'),
  Type.Literal('whole'),
  Type.Literal('pruned'),
  Type.Literal('failed'),
]);
export type EpochsRead = Static<typeof EpochsRead>;

/** A queue whose rows contradict each other: the relay does not change it any more. */
export const BrokenQueueShown = closed({
  host_pubkey: PublicKeyText,
  host: orNull(Text, 'the name under which the key is known'),
  reason: Text,
});
export type BrokenQueueShown = Static<typeof BrokenQueueShown>;

/** The state of the log that a relay shares with others, as it knows it. */
export const SharedLogShown = closed({
  node: Type.String({ description: 'the name of this relay among those that share the log' }),
  leader: orNull(Text, 'the relay that leads; null while none does'),
  leading_since: orNull(Time, 'when this relay first saw it lead'),
  term: Count,
  behind_batches: Count,
  behind_ms: Type.Number({
    description: 'how long ago this relay first saw the oldest batch that it has not applied',
  }),
  is_reached: Type.Boolean({ description: 'whether the log answered when it was asked last' }),
  is_stalled: Type.Boolean({ description: 'whether the log takes no batch now' }),
  copy_fault: orNull(
    Text,
    'why a batch would have no second copy now, so that nothing is accepted; null when it has one',
  ),
  fences: Type.Integer({
    description: 'how often the log refused this relay since its start, because another one leads',
  }),
  fenced_at: orNull(Time, 'when it last did'),
  snapshot_at: orNull(Time, 'when the snapshot in the log was taken, as far as a relay that leads has read it'),
  doubt: orNull(Text, 'why the relay that leads must begin a new epoch'),
  settings_differ: Type.Array(Text, { description: 'settings in which this relay differs from the one that leads' }),
});
export type SharedLogShown = Static<typeof SharedLogShown>;

/** The check of the rows against the log, since the start. */
export const RowsCheckShown = closed({
  last: orNull(
    closed({
      at: Time,
      rows: Count,
      found: Type.Integer({ minimum: 0, description: 'what was not as the log gives it' }),
      findings: Type.Array(Text, { description: 'the first of them: which row, and what is wrong with it' }),
    }),
    'the last one that came to its end; null before any',
  ),
  failed_at: orNull(Time, 'when one failed; null when a whole one came after it, or none failed'),
  under_way: orNull(closed({ stage: Text, done: Count, of: orNull(Count) }), 'how far the one is that is under way'),
});
export type RowsCheckShown = Static<typeof RowsCheckShown>;

/** Parameters of a query. */
export const SinceTime = Type.Optional(Type.Integer({ ...Time, description: 'at or after this time' }));
export const UntilTime = Type.Optional(Type.Integer({ ...Time, description: 'at or before this time' }));

/** Measurements of the relay, taken every few seconds. */
export const ConsoleSample = closed({
  at: Time,
  accepted_per_s: Number,
  acked_per_s: Number,
  rejected_per_s: Number,
  requests_per_s: Number,
  commit_p50_ms: orNull(Number),
  commit_p99_ms: orNull(Number),
  queue_items: Type.Integer(),
  queue_bytes: Type.Integer(),
  oldest_item_age_ms: orNull(Number),
  disk_free_bytes: Number,
  is_disk_low: Type.Boolean(),
  hosts: Count,
  waiting_pulls: Count,
  log_position: Count,
  epoch: EpochText,
  rss_bytes: Number,
});
export type ConsoleSample = Static<typeof ConsoleSample>;

export const ConsoleSamplesQuery = Type.Object({ since: SinceTime, until: UntilTime });

export const ConsoleSamples = closed({
  samples: Type.Array(ConsoleSample, { description: 'of longer times merged: means of rates, else the worst' }),
  first_at: orNull(Time, 'the oldest that there is: none outlives a restart'),
});
export type ConsoleSamples = Static<typeof ConsoleSamples>;

/** Something that is wrong with the relay now. */
export const RelayFault = closed({
  alert: orNull(Text, 'the alert of `alerts.yml` that tells of the same'),
  is_critical: Type.Boolean({ description: 'hosts notice it' }),
  what: Type.String({ description: 'what is wrong, as a sentence' }),
  mend: Type.String({ description: 'what to do, as a sentence' }),
});
export type RelayFault = Static<typeof RelayFault>;

/** A witness that is asked to cosign the log. */
export interface WitnessShown {
  name: string;
  /** The age of its newest cosignature of the log; null before the first since the start. */
  cosigned_ms_ago: number | null;
  /** The reason why it gave none when it was asked last, as a clause. */
  fault: string | null;
}

/** The regular backups. */
export const BackupsShown = closed({
  folder: Text,
  keep: Type.Integer({ description: 'how many are kept' }),
  every_ms: Number,
  last: orNull(closed({ at: Time, ok: Type.Boolean() }), 'how the last attempt went'),
  newest: orNull(closed({ name: Text, at: Time, bytes: Number }), 'the newest good one'),
  next_at: Time,
});
export type BackupsShown = Static<typeof BackupsShown>;

/** The log goes back so far, and this was removed from it. */
export const LogKeptShown = closed({
  first_at: orNull(Time, 'the time of the oldest record that is kept'),
  is_pruned: Type.Boolean({ description: 'whether older records were removed' }),
  keep_ms: orNull(Number, 'how long records are kept; null: for ever'),
  archive_folder: orNull(Text),
  last_removal: orNull(
    closed(
      { at: Time, records: Count, from: Time, through: Time, archive: orNull(Text) },
      '`from` and `through` are the times of the first and last record removed',
    ),
    'the last removal since the start',
  ),
});
export type LogKeptShown = Static<typeof LogKeptShown>;

/** The members in which a relay tells its operator of itself, leading or following. */
const OF_RELAY = {
  version: Text,
  relay_pubkey: PublicKeyText,
  fingerprint: Text,
  server: Text,
  uptime_ms: Number,
  now: Time,
  faults: Type.Array(RelayFault, { description: 'the worst first; none when all is well' }),
  backups: orNull(BackupsShown, 'null without a plan'),
  command_backup_at: orNull(Time, 'when `poste relay backup` last took one since the start'),
  log_kept: LogKeptShown,
  disk_free_bytes: orNull(Number),
};

/** The document of a relay that follows a shared log: everything else is shown by the one that leads. */
export const ConsoleFollowing = closed({ role: Type.Literal('following'), ...OF_RELAY, shared_log: SharedLogShown });
export type ConsoleFollowing = Static<typeof ConsoleFollowing>;

export const ConsoleOverview = closed({
  role: Type.Union([Type.Literal('alone'), Type.Literal('leading')]),
  ...OF_RELAY,
  admission: Text,
  authority: Type.Union([Type.Literal('host-key'), Type.Literal('account-token')]),
  addresses: Type.Array(Text, {
    description: 'URLs under which this relay listens to hosts; of the name of a proxy it knows nothing',
  }),
  host_keys: Type.Integer({ description: 'host keys that were ever admitted' }),
  can_take_backup: Type.Boolean(),
  rows_check: orNull(RowsCheckShown, 'null while the relay starts, and where it runs from its sources'),
  shared_log: orNull(SharedLogShown),
  sample_every_ms: Count,
  samples: Type.Array(ConsoleSample),
  biggest_queues: Type.Array(HostShown),
  broken_queues: Type.Array(BrokenQueueShown, {
    description: 'found since the start; what vanished, until it is there again',
  }),
  damaged_rows: Type.Array(Text, { description: 'names of the first rows that were found since the start' }),
  damaged_rows_found: Count,
  refusals: Type.Array(RefusalCount),
  epochs: Type.Array(EpochBegun, { description: 'the newest first' }),
  epochs_read: EpochsRead,
});
export type ConsoleOverview = Static<typeof ConsoleOverview>;

/** The orders of the list of hosts: the natural order of each is the one that an operator looks for. */
const HOST_ORDERS = {
  bytes: 'bytes waiting, the most first',
  items: 'items waiting, the most first',
  full: 'how full the mailbox is, the fullest first',
  seen: 'the last call, the longest ago first',
  name: 'the name, from A to Z',
  enrolled: 'the enrolment, the newest first',
} as const;
export type HostOrder = keyof typeof HOST_ORDERS;

export const ConsoleHostsQuery = Type.Object({
  search: Type.Optional(Type.String({ maxLength: 100, description: 'in name, account, owner, fingerprint and key' })),
  state: Type.Optional(Type.String({ pattern: '^[A-Za-z]{0,40}$', description: 'a state of hosts; empty for all' })),
  sort: Type.Optional(Type.Union(Object.keys(HOST_ORDERS).map((order) => Type.Literal(order as HostOrder)))),
  reverse: Type.Optional(Type.Union([Type.Literal('yes'), Type.Literal('no')])),
  offset: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'hosts to leave out' })),
});

export const HostListed = closed({
  ...HostShown.properties,
  last_seen: orNull(Time, 'when it last asked for mail since the start'),
  fullness: Type.Number({
    description: 'the part of the quota of its mailbox that is used: 0 to 1, or a little more',
  }),
});
export type HostListed = Static<typeof HostListed>;

export const ConsoleHosts = closed({
  hosts: Type.Array(HostListed),
  offset: Type.Integer({ description: 'how many come before these' }),
  per_page: Type.Integer({ description: 'how many one answer has at most' }),
  matches: Count,
  total: Count,
});
export type ConsoleHosts = Static<typeof ConsoleHosts>;

export const ConsoleHostQuery = Type.Object({ key: KeyParameter });

export const QuotaUse = closed({ name: Text, unit: Text, used: Type.Integer(), max: Number });
export type QuotaUse = Static<typeof QuotaUse>;

export const ConsoleHost = closed({
  host: HostShown,
  quotas: Type.Array(QuotaUse),
  allowed_senders: orNull(Count),
  senders_published_at: orNull(Time),
  enc_key_published_at: orNull(Time),
  lineage: Type.Array(closed({ host_pubkey: PublicKeyText, fingerprint: Text, retired_at: orNull(Time) })),
  oldest_waiting_at: orNull(
    Time,
    'when the oldest waiting item was accepted; null when none waits or it cannot be read',
  ),
  last_pull: orNull(closed({ at: Time, through: orNull(Count) })),
});
export type ConsoleHost = Static<typeof ConsoleHost>;

export const ConsoleRevokeRequest = Type.Object({
  host_pubkey: PublicKeyText,
  confirm: Type.String({ maxLength: 100, description: 'the name of the host, typed again' }),
});

export const ConsoleRevoked = closed({ host: HostShown, is_new: Type.Boolean() });
export type ConsoleRevoked = Static<typeof ConsoleRevoked>;

export const ConsoleBackup = closed({ name: Text, bytes: Number, taken_at: Time });
export type ConsoleBackup = Static<typeof ConsoleBackup>;

export const InviteRequest = Type.Object({
  label: Type.String({ maxLength: INVITE_LABEL_CHARACTERS_MAX }),
  lifetime_ms: Type.Integer({ minimum: INVITE_LIFETIME_MIN_MS, maximum: INVITE_LIFETIME_MAX_MS }),
});

/** `id` is the hash of the token. */
const INVITE = { id: HashText, label: Text, issued_at: Time, expires_at: Time };

export const InviteShown = closed(INVITE);
export type InviteShown = Static<typeof InviteShown>;

export const ConsoleInvites = closed({
  invites: Type.Array(InviteShown, { description: 'the newest of those that are neither used nor expired' }),
  total: Count,
  admission: Text,
});
export type ConsoleInvites = Static<typeof ConsoleInvites>;

export const ConsoleInviteIssued = closed({ ...INVITE, token: Type.String({ description: 'shown only here' }) });
export type ConsoleInviteIssued = Static<typeof ConsoleInviteIssued>;

export const ConsoleInviteRevokeRequest = Type.Object({ id: HashText });

export const ConsoleInviteRevoked = closed({
  is_new: Type.Boolean({ description: 'false when it was used, has expired or never was' }),
});
export type ConsoleInviteRevoked = Static<typeof ConsoleInviteRevoked>;

export const ConsoleLogQuery = Type.Object({
  before: Type.Optional(Count),
  after: Type.Optional(Count),
  type: Type.Optional(Type.String({ pattern: '^[A-Za-z]{1,40}$', description: 'a type of events' })),
  host: Type.Optional(KeyParameter),
  item: Type.Optional(ItemIdText),
  since: SinceTime,
  until: UntilTime,
});

const NamedKey = closed({ role: Text, host_pubkey: PublicKeyText, name: orNull(Text) });

export const LoggedEvent = closed({
  lsn: Count,
  type: Text,
  at: Time,
  hosts: Type.Array(NamedKey),
  item_id: orNull(Text),
  facts: Type.Array(closed({ name: Text, value: Text })),
});
export type LoggedEvent = Static<typeof LoggedEvent>;

export const ConsoleLog = closed({
  events: Type.Array(LoggedEvent, { description: 'the newest first' }),
  searched_down_to: Type.Integer({
    description: 'the next request asks for events before this record; at 1 there are none',
  }),
  searched_down_at: orNull(Time, 'the time of the last record searched'),
  log_position: Count,
});
export type ConsoleLog = Static<typeof ConsoleLog>;

export const ConsoleTraceQuery = Type.Object({ lsn: Count });

export const TraceStep = closed({ at: orNull(Time), lsn: orNull(Count), what: Text, text: Text });
export type TraceStep = Static<typeof TraceStep>;

export const ConsoleTrace = closed({
  item_id: Text,
  kind: Text,
  sender: NamedKey,
  lsn: Count,
  targets: Type.Array(closed({ target: NamedKey, bytes: Count, state: Text, steps: Type.Array(TraceStep) })),
  searched_up_to: Type.Integer({ description: 'later records were not searched' }),
  searched_up_at: orNull(Time, 'the time of that record; null when it is the last'),
  log_position: Count,
});
export type ConsoleTrace = Static<typeof ConsoleTrace>;

/** Problems of the operator's listener, in the same form as the problems of the protocol. */
export const OPERATOR_PROBLEMS = {
  ...PAGE_PROBLEMS,
  UNKNOWN_HOST_KEY: { status: 404, title: 'Unknown Host Key' },
  UNKNOWN_RECORD: { status: 404, title: 'Unknown Record' },
  NOT_CONFIRMED: { status: 409, title: 'Not Confirmed' },
  BACKUP_UNDER_WAY: { status: 409, title: 'Backup Under Way' },
  BACKUP_FAILED: { status: 500, title: 'Backup Failed' },
  ROWS_CHECK_UNDER_WAY: { status: 409, title: 'Rows Check Under Way' },
  NOT_LEADING: { status: 409, title: 'Not Leading' },
} as const;
export type OperatorProblemCode = keyof typeof OPERATOR_PROBLEMS;
