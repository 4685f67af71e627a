/**
 * What the relay shows its operator, over the control socket and on the console. Times are milliseconds since 1970.
 * Names, accounts, reasons and labels are untrusted text: show them as text only.
 */
import Type, { type Static } from 'typebox';
import { PAGE_PROBLEMS } from './page-documents.ts';
import { RowsCheckShown } from './rows-check-documents.ts';
import { ConsoleSample, SinceTime, UntilTime } from './sample-documents.ts';
import { CLOSED, Count, EpochText, ItemIdText, KeyParameter, PublicKeyText, Time, orNull } from './shapes.ts';

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
export const HostShown = Type.Object(
  {
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
  },
  CLOSED,
);
export type HostShown = Static<typeof HostShown>;

export const RefusalCount = Type.Object(
  {
    reason: Text,
    what: Type.Union([Type.Literal('item'), Type.Literal('request')]),
    last_at: Time,
    last_minute: Count,
    last_hour: Count,
  },
  CLOSED,
);
export type RefusalCount = Static<typeof RefusalCount>;

export const EpochBegun = Type.Object({ lsn: Count, at: Time, epoch: EpochText, reason: Text }, CLOSED);
export type EpochBegun = Static<typeof EpochBegun>;

/**
 * How far back the log was read for its epochs: still reading, to its beginning, to where it was pruned, or to a
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
export const BrokenQueueShown = Type.Object(
  {
    host_pubkey: PublicKeyText,
    host: Type.Union([Text, Type.Null()], { description: 'the name under which the key is known' }),
    reason: Text,
  },
  CLOSED,
);
export type BrokenQueueShown = Static<typeof BrokenQueueShown>;

/** What a relay knows of the log that it shares with others. */
export const SharedLogShown = Type.Object(
  {
    node: Type.String({ description: 'the name of this relay among those that share the log' }),
    leader: Type.Union([Text, Type.Null()], { description: 'the relay that leads; null while none does' }),
    leading_since: Type.Union([Time, Type.Null()], { description: 'when this relay first saw it lead' }),
    term: Count,
    behind_batches: Count,
    behind_ms: Type.Number({
      description: 'how long ago this relay first saw the oldest batch that it has not applied',
    }),
    is_reached: Type.Boolean({ description: 'whether the log answered when it was asked last' }),
    is_stalled: Type.Boolean({ description: 'whether the log takes no batch now' }),
    copy_fault: Type.Union([Text, Type.Null()], {
      description: 'why a batch would have no second copy now, so that nothing is accepted; null when it has one',
    }),
    fences: Type.Integer({
      description: 'how often the log refused this relay since its start, because another one leads',
    }),
    fenced_at: Type.Union([Time, Type.Null()], { description: 'when it last did' }),
    snapshot_at: Type.Union([Time, Type.Null()], {
      description: 'when the snapshot in the log was taken, as far as a relay that leads has read it',
    }),
    doubt: Type.Union([Text, Type.Null()], { description: 'why the relay that leads must begin a new epoch' }),
    settings_differ: Type.Array(Text, { description: 'settings in which this relay differs from the one that leads' }),
  },
  CLOSED,
);
export type SharedLogShown = Static<typeof SharedLogShown>;

/** Something that is wrong with the relay now. */
export const RelayFault = Type.Object(
  {
    alert: Type.Union([Text, Type.Null()], { description: 'the alert of `alerts.yml` that tells of the same' }),
    is_critical: Type.Boolean({ description: 'hosts notice it' }),
    what: Type.String({ description: 'what is wrong, as a sentence' }),
    mend: Type.String({ description: 'what to do, as a sentence' }),
  },
  CLOSED,
);
export type RelayFault = Static<typeof RelayFault>;

/** The regular backups. */
export const BackupsShown = Type.Object(
  {
    folder: Text,
    keep: Type.Integer({ description: 'how many are kept' }),
    every_ms: Number,
    last: Type.Union([Type.Object({ at: Time, ok: Type.Boolean() }, CLOSED), Type.Null()], {
      description: 'how the last attempt went',
    }),
    newest: Type.Union([Type.Object({ name: Text, at: Time, bytes: Number }, CLOSED), Type.Null()], {
      description: 'the newest good one',
    }),
    next_at: Time,
  },
  CLOSED,
);
export type BackupsShown = Static<typeof BackupsShown>;

/** How far back the log goes, and what was removed from it. */
export const LogKeptShown = Type.Object(
  {
    first_at: Type.Union([Time, Type.Null()], { description: 'the time of the oldest record that is kept' }),
    is_pruned: Type.Boolean({ description: 'whether older records were removed' }),
    keep_ms: Type.Union([Number, Type.Null()], { description: 'how long records are kept; null: for ever' }),
    archive_folder: orNull(Text),
    last_removal: Type.Union(
      [
        Type.Object(
          { at: Time, records: Count, from: Time, through: Time, archive: orNull(Text) },
          { ...CLOSED, description: '`from` and `through` are the times of the first and last record removed' },
        ),
        Type.Null(),
      ],
      { description: 'the last removal since the start' },
    ),
  },
  CLOSED,
);
export type LogKeptShown = Static<typeof LogKeptShown>;

/** What a relay tells its operator of itself, leading or following. */
const OF_RELAY = {
  version: Text,
  relay_pubkey: PublicKeyText,
  fingerprint: Text,
  server: Text,
  uptime_ms: Number,
  now: Time,
  faults: Type.Array(RelayFault, { description: 'the worst first; none when all is well' }),
  backups: Type.Union([BackupsShown, Type.Null()], { description: 'null without a plan' }),
  command_backup_at: Type.Union([Time, Type.Null()], {
    description: 'when `poste relay backup` last took one since the start',
  }),
  log_kept: LogKeptShown,
  disk_free_bytes: orNull(Number),
};

/** What a relay shows that follows a shared log: everything else is shown by the one that leads. */
export const ConsoleFollowing = Type.Object(
  { role: Type.Literal('following'), ...OF_RELAY, shared_log: SharedLogShown },
  CLOSED,
);
export type ConsoleFollowing = Static<typeof ConsoleFollowing>;

export const ConsoleOverview = Type.Object(
  {
    role: Type.Union([Type.Literal('alone'), Type.Literal('leading')]),
    ...OF_RELAY,
    admission: Text,
    authority: Type.Union([Type.Literal('host-key'), Type.Literal('account-token')]),
    addresses: Type.Array(Text, {
      description: 'URLs under which this relay listens to hosts; of the name of a proxy it knows nothing',
    }),
    host_keys: Type.Integer({ description: 'host keys that were ever admitted' }),
    can_take_backup: Type.Boolean(),
    rows_check: Type.Union([RowsCheckShown, Type.Null()], {
      description: 'null while the relay starts, and where it runs from its sources',
    }),
    shared_log: orNull(SharedLogShown),
    sample_every_ms: Count,
    samples: Type.Array(ConsoleSample),
    biggest_queues: Type.Array(HostShown),
    broken_queues: Type.Array(BrokenQueueShown, { description: 'found since the start' }),
    damaged_rows: Type.Array(Text, { description: 'names of the first rows that were found since the start' }),
    damaged_rows_found: Count,
    refusals: Type.Array(RefusalCount),
    epochs: Type.Array(EpochBegun, { description: 'the newest first' }),
    epochs_read: EpochsRead,
  },
  CLOSED,
);
export type ConsoleOverview = Static<typeof ConsoleOverview>;

/** What the list of hosts is sorted by: the natural order of each is the one that an operator looks for. */
export const HOST_ORDERS = {
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

export const HostListed = Type.Object(
  {
    ...HostShown.properties,
    last_seen: Type.Union([Time, Type.Null()], { description: 'when it last asked for mail since the start' }),
    fullness: Type.Number({
      description: 'the part of the quota of its mailbox that is used: 0 to 1, or a little more',
    }),
  },
  CLOSED,
);
export type HostListed = Static<typeof HostListed>;

export const ConsoleHosts = Type.Object(
  {
    hosts: Type.Array(HostListed),
    offset: Type.Integer({ description: 'how many come before these' }),
    per_page: Type.Integer({ description: 'how many one answer has at most' }),
    matches: Count,
    total: Count,
  },
  CLOSED,
);
export type ConsoleHosts = Static<typeof ConsoleHosts>;

export const ConsoleHostQuery = Type.Object({ key: KeyParameter });

/** How much of a limit is used. */
export const QuotaUse = Type.Object({ name: Text, unit: Text, used: Type.Integer(), max: Number }, CLOSED);
export type QuotaUse = Static<typeof QuotaUse>;

export const ConsoleHost = Type.Object(
  {
    host: HostShown,
    quotas: Type.Array(QuotaUse),
    allowed_senders: orNull(Count),
    senders_published_at: orNull(Time),
    enc_key_published_at: orNull(Time),
    lineage: Type.Array(
      Type.Object({ host_pubkey: PublicKeyText, fingerprint: Text, retired_at: orNull(Time) }, CLOSED),
    ),
    oldest_waiting_at: Type.Union([Time, Type.Null()], {
      description: 'when the oldest waiting item was accepted; null when none waits or it cannot be read',
    }),
    last_pull: orNull(Type.Object({ at: Time, through: orNull(Count) }, CLOSED)),
  },
  CLOSED,
);
export type ConsoleHost = Static<typeof ConsoleHost>;

export const ConsoleRevokeRequest = Type.Object({
  host_pubkey: PublicKeyText,
  confirm: Type.String({ maxLength: 100, description: 'the name of the host, typed again' }),
});

export const ConsoleRevoked = Type.Object({ host: HostShown, is_new: Type.Boolean() }, CLOSED);
export type ConsoleRevoked = Static<typeof ConsoleRevoked>;

export const ConsoleBackup = Type.Object({ name: Text, bytes: Number, taken_at: Time }, CLOSED);
export type ConsoleBackup = Static<typeof ConsoleBackup>;

export const ConsoleLogQuery = Type.Object({
  before: Type.Optional(Count),
  after: Type.Optional(Count),
  type: Type.Optional(Type.String({ pattern: '^[A-Za-z]{1,40}$', description: 'a type of events' })),
  host: Type.Optional(KeyParameter),
  item: Type.Optional(ItemIdText),
  since: SinceTime,
  until: UntilTime,
});

const NamedKey = Type.Object({ role: Text, host_pubkey: PublicKeyText, name: orNull(Text) }, CLOSED);

export const LoggedEvent = Type.Object(
  {
    lsn: Count,
    type: Text,
    at: Time,
    hosts: Type.Array(NamedKey),
    item_id: orNull(Text),
    facts: Type.Array(Type.Object({ name: Text, value: Text }, CLOSED)),
  },
  CLOSED,
);
export type LoggedEvent = Static<typeof LoggedEvent>;

export const ConsoleLog = Type.Object(
  {
    events: Type.Array(LoggedEvent, { description: 'the newest first' }),
    searched_down_to: Type.Integer({
      description: 'the next request asks for events before this record; at 1 there are none',
    }),
    searched_down_at: Type.Union([Time, Type.Null()], { description: 'the time of the last record searched' }),
    log_position: Count,
  },
  CLOSED,
);
export type ConsoleLog = Static<typeof ConsoleLog>;

export const ConsoleTraceQuery = Type.Object({ lsn: Count });

export const TraceStep = Type.Object({ at: orNull(Time), lsn: orNull(Count), what: Text, text: Text }, CLOSED);
export type TraceStep = Static<typeof TraceStep>;

export const ConsoleTrace = Type.Object(
  {
    item_id: Text,
    kind: Text,
    sender: NamedKey,
    lsn: Count,
    targets: Type.Array(
      Type.Object({ target: NamedKey, bytes: Count, state: Text, steps: Type.Array(TraceStep) }, CLOSED),
    ),
    searched_up_to: Type.Integer({ description: 'later records were not searched' }),
    searched_up_at: Type.Union([Time, Type.Null()], {
      description: 'the time of that record; null when it is the last',
    }),
    log_position: Count,
  },
  CLOSED,
);
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
