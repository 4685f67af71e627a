/** Results of the operations on the daemon itself: its checks (`doctor`), its status, the link to the owner's page. */
import { type Static, Type } from 'typebox';
import { type Check as AnyCheck, CHECK_STATES } from '../../lib/check.ts';
import {
  CLOSED,
  Count,
  EncKeyText,
  ExactMoment,
  HostNameText,
  Moment,
  orNull,
  PublicKeyText,
} from '../../protocol/shapes.ts';
import { LINK_STATES, RelayOfHost, RelayView } from './relays.ts';

export const WebLinkResult = Type.Object({
  /** Opens the page once. */
  url: Type.String(),
  expires_at: Moment,
});
export type WebLinkResult = Static<typeof WebLinkResult>;

const CHECK_AREAS = ['host', 'daemon', 'peers', 'relay', 'mail', 'wake'] as const;
export type CheckArea = (typeof CHECK_AREAS)[number];

/** DO NOT CHANGE an id: programs switch on them. */
const CHECK_IDS = [
  'config',
  'folder',
  'socket',
  'disk',
  'daemon',
  'store',
  'lan-listener',
  'peer',
  'own-key',
  'peer-copies',
  'own-copy',
  'relay',
  'relay-reach',
  'relay-key',
  'relay-epoch',
  'relay-clock',
  'relay-enrolment',
  'relay-enc-key',
  'relay-senders',
  'relay-queue',
  'relay-link',
  'relay-evidence',
  'relay-witness',
  'relay-retention',
  'relay-own-key',
  'relay-doubt',
  'outbox',
  'quarantine',
  'wake',
  'installed',
] as const;
export type CheckId = (typeof CHECK_IDS)[number];

export type Check = AnyCheck<CheckArea, CheckId>;

const CheckDocument = Type.Object({
  area: Type.Enum([...CHECK_AREAS]),
  id: Type.Enum([...CHECK_IDS]),
  about: Type.Union([Type.String(), Type.Null()]),
  relay: Type.Optional(Type.String()),
  state: Type.Enum([...CHECK_STATES]),
  sentence: Type.String(),
  command: Type.Union([Type.String(), Type.Null()]),
});

/** The daemon's own checks; `poste doctor` adds those that need no daemon. */
export const DoctorResult = Type.Object({
  host: Type.String(),
  fingerprint: Type.String(),
  version: Type.String(),
  pid: Type.Integer(),
  checks: Type.Array(CheckDocument),
});
export type DoctorResult = Static<typeof DoctorResult>;

/** The way that mail for a paired host would go now; `none`: it waits. */
const REACHES = ['lan', 'relay', 'none', 'unknown'] as const;

const { number, role, state, problem, is_down, unheard_seconds } = RelayView.properties;

export const StatusResult = Type.Object(
  {
    host: HostNameText,
    host_pubkey: PublicKeyText,
    fingerprint: Type.String(),
    enc_pub: EncKeyText,
    version: Type.String(),
    pid: Type.Integer(),
    /** Setup compares it, to the millisecond, with the time at which it started a daemon. */
    started_at: ExactMoment,
    store: Type.String(),
    config: Type.String(),
    socket: Type.String(),
    /** Agents that were not removed. */
    agents: Count,
    owner_unread: Count,
    /** The address that paired hosts call: as configured, and the port that is open; null while none is. */
    listener: Type.Object({ listen: Type.String(), port: orNull(Count) }),
    /** The address of the owner's page, while it is open; and why it cannot be opened. */
    page: Type.Object({ url: orNull(Type.String()), problem: orNull(Type.String()) }),
    relay: orNull(
      Type.Object({ url: Type.String(), state: Type.Enum([...LINK_STATES]), problem: orNull(Type.String()) }),
    ),
    /** The relays in the owner's order; absent while there is none beside the first. */
    relays: Type.Optional(
      Type.Array(Type.Object({ number, url: Type.String(), role, state, problem, is_down, unheard_seconds })),
    ),
    peers: Type.Array(
      Type.Object({
        host: HostNameText,
        reach: Type.Enum([...REACHES]),
        /** The relay that mail for it takes beyond the LAN; absent while there is none beside the first. */
        relay: Type.Optional(orNull(Type.Object({ number, url: Type.String() }))),
        /** The relays where it takes mail, while this host uses none of them that works. Its word, never called. */
        takes_mail_at: Type.Optional(Type.Array(RelayOfHost)),
        address: orNull(Type.String()),
        reached_at: orNull(Moment),
        /** Messages that nobody has taken yet. */
        waiting: Count,
        oldest_at: orNull(Moment),
      }),
    ),
    /** Messages to all paired hosts: not taken yet, and taken without a receipt. */
    outbox: Type.Object({ waiting: Count, unconfirmed: Count }),
    quarantined: Count,
    /** Lines of the daemon's log that could not be written since it started. */
    log_lines_lost: Count,
    /** The problems, as far as they show without a call. */
    problems: Type.Array(CheckDocument),
  },
  CLOSED,
);
export type StatusResult = Static<typeof StatusResult>;
