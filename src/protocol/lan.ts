/**
 * The routes between paired hosts on a LAN: the shapes of requests and answers.
 *
 * Unknown members are ignored. `port` is an addition of this implementation: without it the called host knows the
 * address of the caller, but not the port on which the caller listens.
 */
import Type, { type Static } from 'typebox';
import { AGENT_NAME_PATTERN } from './names.ts';
import { PUSHED_KINDS } from './items.ts';
import { EncKeyText, HostNameText, ItemIdText, PublicKeyText, Signature, Time, WireText, orNull } from './shapes.ts';

export const LAN_ROUTES = {
  hello: '/v1/lan/hello',
  pair: '/v1/lan/pair',
  items: '/v1/lan/items',
  agents: '/v1/lan/agents',
  rotate: '/v1/lan/rotate',
  encKey: '/v1/lan/enc-key',
} as const;

export const LAN_BODY_BYTES_MAX = 8 << 20;
/** Wire bytes of one item. The longest allowed message fits when it is sealed. */
export const LAN_ITEM_BYTES_MAX = 4 << 20;
/** Items of one request. */
export const LAN_BATCH_MAX = 200;
/** Agents that one host lists to another. */
export const LAN_AGENTS_MAX = 5000;
const ROLES_MAX = 32;
const MAC_CHARACTERS = 44;

const PORT = '(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])';
const HOST = String.raw`(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])`;

export const LAN_ADDRESS_PATTERN = `^${HOST}:${PORT}$`;

/** `host:port` of a listener, an IPv6 host in brackets. It cannot be read as another part of a URL. */
export const LanAddressText = Type.String({
  pattern: LAN_ADDRESS_PATTERN,
  description: 'host:port of a LAN listener, as in 192.168.1.7:8789',
});

const Port = Type.Integer({ minimum: 1, maximum: 65_535 });
const AgentName = Type.String({ pattern: AGENT_NAME_PATTERN });

/** The signed advertisement of the key to which mail for a host is sealed. */
export const LanEncKey = Type.Object({ host_pubkey: PublicKeyText, enc_pub: EncKeyText, at: Time, sig: Signature });
export type LanEncKey = Static<typeof LanEncKey>;

/** Base64url of 16 to 32 bytes that the caller chose. */
const HELLO_NONCE_PATTERN = '^[A-Za-z0-9_-]{22,43}$';

/** `GET /v1/lan/hello?nonce=&address=`: the address that the host shall sign, percent-encoded. Both or none. */
export const LanHelloQuery = Type.Object({
  nonce: Type.Optional(Type.String({ pattern: HELLO_NONCE_PATTERN, description: '16 to 32 bytes in base64url' })),
  address: Type.Optional(LanAddressText),
});

/** The answer of `GET /v1/lan/hello`, for any caller. A host signs (`LanHelloWord`) only an address that is its own. */
export const LanHello = Type.Object({
  host: HostNameText,
  pubkey: PublicKeyText,
  version: Type.String(),
  now: Time,
  sig: Type.Optional(Signature),
});
export type LanHello = Static<typeof LanHello>;

/** `POST /v1/lan/pair` and its answer: each host describes itself, with the MAC of its role. */
export const LanPairing = Type.Object({
  host: HostNameText,
  pubkey: PublicKeyText,
  enc_key: LanEncKey,
  mac: Type.String({ minLength: MAC_CHARACTERS, maxLength: MAC_CHARACTERS }),
  port: Type.Optional(Port),
  /** `host:port` where it listens, if its requests come from another address. */
  address: Type.Optional(LanAddressText),
  /** The host's statement about relays (home-relays.ts). Whatever stands in it, the hosts are paired. */
  home: Type.Optional(Type.Unknown()),
});
export type LanPairing = Static<typeof LanPairing>;

/** `POST /v1/lan/items`. Each item gets its own verdict, a malformed one too. */
export const LanItems = Type.Object({ items: Type.Array(Type.Unknown(), { minItems: 1, maxItems: LAN_BATCH_MAX }) });
export const LanItem = Type.Object({ kind: Type.Enum([...PUSHED_KINDS]), item_id: ItemIdText, wire_b64: WireText });
export type LanItem = Static<typeof LanItem>;

/** `status`: `accepted`, `duplicate`, `quarantined` or `rejected:<code>`. */
export const LanItemsAnswer = Type.Object({
  results: Type.Array(Type.Object({ item_id: orNull(Type.String()), status: Type.String({ maxLength: 200 }) }), {
    maxItems: LAN_BATCH_MAX,
  }),
});
export type LanItemsAnswer = Static<typeof LanItemsAnswer>;

/**
 * The answer of `GET` and the body of `POST /v1/lan/agents`: names and roles, never sessions; what the host has seen
 * of its relay, which `parseSeen` reads; and what it says of relays (home-relays.ts). Neither makes the names count
 * less.
 */
export const LanAgents = Type.Object({
  agents: Type.Array(Type.Object({ name: AgentName, roles: Type.Array(AgentName, { maxItems: ROLES_MAX }) }), {
    maxItems: LAN_AGENTS_MAX,
  }),
  seen: Type.Optional(Type.Unknown()),
  home: Type.Optional(Type.Unknown()),
});
export type LanAgents = Static<typeof LanAgents>;

/** The answer of `POST` to `/v1/lan/rotate`, `/v1/lan/enc-key` and `/v1/lan/agents`. */
export const LanDone = Type.Object({ host_pubkey: PublicKeyText });
export type LanDone = Static<typeof LanDone>;
