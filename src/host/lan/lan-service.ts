/**
 * Everything of the LAN that the daemon runs: the listener, pairing, the carrier of the outbox, and what peers are told
 * and asked besides mail (a new key of this host, the names of their agents).
 *
 * The listener is up only while a host is paired or an invitation is open.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import { ListenFailed } from '../../http/listen-failed.ts';
import { displayFingerprint, parsePublicKey } from '../../protocol/public-key.ts';
import { parseHostName } from '../../protocol/names.ts';
import type { LanPairing } from '../../protocol/lan.ts';
import { isCodeOf, parsePairingCode } from '../../protocol/pairing-code.ts';
import { isoSecond } from '../../protocol/time.ts';
import { limitedSignal } from '../../lib/http-request.ts';
import { type ListenAddress, listenAddressText } from '../../lib/listen-address.ts';
import { type Refusal, isRefusal, refusal } from '../core/refusal.ts';
import type { PeerId, PeerRow } from '../core/rows.ts';
import type { AcceptInput, InviteInput, InviteResult, PeerView } from '../contract/peers.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import { encKeyOf, livePeers, peerView, pinPeer } from '../peers/peers.ts';
import { markReached } from '../outbox/outbox.ts';
import { ownAddresses, PeerAddressCheck } from './peer-address.ts';
import { LanCallFailed, LanClient } from './lan-client.ts';
import { lanRoutes } from './lan-routes.ts';
import { LanServer } from './lan-server.ts';
import { LanCarrier } from './send-batch.ts';
import {
  acceptorMessage,
  isFromInviter,
  type ListeningAt,
  PairingInvite,
  pairingWords,
} from '../peers/pairing-invite.ts';
import { INVITE_MS } from '../contract/limits.ts';
import { type LookAtRelay, type SyncReason, PeerSync } from './peer-sync.ts';
import { quarantineRetries } from '../inbound/quarantine.ts';
import { systemTimers } from '../../lib/clock.ts';
import { PeriodicTask, type SingleFlightTask } from '../../lib/periodic-task.ts';

/** The time between two rounds, which tell each peer what it does not know yet and ask what is not known of it. */
const SYNC_EVERY_MS = 60_000;
/** A call of a peer is noted in its row no more often than this. */
const NOTE_CALL_MS = 60_000;

/** The time that a sender waits for paired hosts to name their agents. */
const FRESHEN_MS = 2_000;
/** The age up to which names are not asked for again. */
const DIRECTORY_NEW_MS = 2_000;

/** Problems of the inviter after which a new code is needed. */
const PAIRING_FAULTS: ReadonlySet<string> = new Set(['ENROL_REFUSED', 'BAD_SIGNATURE', 'BAD_REQUEST']);

/** Answers of an inviter whose owner has not confirmed the pairing, or who has too many strangers to listen to. */
const WAITING: ReadonlySet<string> = new Set(['UNAVAILABLE', 'RATE_LIMITED']);
const ASK_AGAIN_MS = 500;

interface LanServiceOptions {
  context: HostContext;
  listen: ListenAddress;
  advertise: ListenAddress | undefined;
  version: string;
  /** Without a relay there is nothing to look at. */
  look?: LookAtRelay;
}

export class LanService {
  readonly invitation: PairingInvite;
  /** Takes what the outbox has for hosts that the LAN reaches. */
  readonly carrier: LanCarrier;
  readonly #options: LanServiceOptions;
  readonly #context: HostContext;
  readonly #stopping = new AbortController();
  readonly #client: LanClient;
  readonly #look: LookAtRelay;
  readonly #sync: PeerSync;
  readonly #addressCheck: PeerAddressCheck;
  readonly #retries: SingleFlightTask;
  #server: LanServer | undefined;
  /** Changes of the listener, one after another. */
  #listening: Promise<void> = Promise.resolve();
  /** Pairings under way that this host accepts: the other side is told where this one listens. */
  #accepting = 0;
  #inviteTimer: NodeJS.Timeout | undefined;
  #rounds: PeriodicTask | undefined;
  #unsubscribe: () => void = () => undefined;

  constructor(options: LanServiceOptions) {
    this.#options = options;
    this.#context = options.context;
    this.#client = new LanClient(options.context, this.#stopping.signal);
    this.invitation = new PairingInvite(options.context, () => {
      void this.#retries.rerun();
      this.#listenAfterwards();
    });
    this.carrier = new LanCarrier({
      context: options.context,
      client: this.#client,
      onDoubt: (peerId) => void this.#sync.begin(peerId, 'doubt'),
    });
    this.#look = options.look ?? (() => Promise.resolve());
    this.#sync = new PeerSync({ context: options.context, client: this.#client, look: this.#look });
    this.#addressCheck = new PeerAddressCheck(options.context, this.#client);
    this.#retries = quarantineRetries(options.context);
  }

  /** Listens when a host is paired. A port that is taken is logged and tried again. */
  async start(): Promise<void> {
    this.#unsubscribe = this.#context.subscribe('lan', {
      'peers-changed': () => {
        this.#listenAfterwards();
        this.#syncAll('needed');
      },
      'identity-changed': () => this.#syncAll('needed'),
      'agents-changed': () => this.#syncAll('agents-changed'),
      'home-changed': () => this.#syncAll('home-changed'),
    });
    await this.#listenAsNeeded().catch((error) => this.#logNotListening(error));
    this.#rounds = new PeriodicTask({
      timers: systemTimers,
      everyMs: SYNC_EVERY_MS,
      work: async () => {
        this.#listenAfterwards();
        await this.#sync.beginAll('needed');
      },
      onError: (error) => this.#logFailed(error),
    });
    // A daemon that was killed behind a key that it had just learned has not tried what waited for the key.
    void this.#retries.rerun();
    // Peers whose mail for this host waits learn that it is there.
    this.#syncAll('doubt');
  }

  /** Ends calls, answers what was asked, and closes the listener. */
  async stop(): Promise<void> {
    this.#unsubscribe();
    clearTimeout(this.#inviteTimer);
    this.invitation.close();
    this.#stopping.abort();
    await Promise.all([this.#rounds?.stop(), this.#sync.stop(), this.#listening.catch(() => undefined)]);
    await this.#server?.close();
    this.#server = undefined;
    await this.#retries.stop();
  }

  /** The port of the listener; `undefined` while it does not listen. */
  get port(): number | undefined {
    return this.#server?.port;
  }

  async invite(input: InviteInput = {}): Promise<InviteResult | Refusal> {
    const isAgain = this.invitation.isOpen;
    const { code, expiresAtMs } = this.invitation.open(input);
    try {
      await this.#listenAsNeeded();
    } catch (error) {
      this.invitation.close();
      return cannotListen(error);
    }
    clearTimeout(this.#inviteTimer);
    // For the listener alone: the invitation itself looks at the clock.
    this.#inviteTimer = setTimeout(() => this.#listenAfterwards(), INVITE_MS + 1000);
    const { publicKey } = this.#context.identity().signer;
    const fingerprint = displayFingerprint(publicKey);
    const expires_at = isoSecond(expiresAtMs);
    return { code, expires_at, addresses: this.#shownAddresses(), fingerprint, voids_earlier: isAgain };
  }

  /**
   * Asks these paired hosts, side by side, who their agents are, unless that was learned just now. Resolves when all
   * answered or `FRESHEN_MS` is over; one that is known not to answer is not waited for.
   */
  async freshenDirectories(peerIds: ReadonlySet<PeerId>): Promise<void> {
    const nowMs = this.#context.nowMs();
    const peers = await this.#context.store.read(livePeers);
    const asked = peers.filter(({ peerId, address, lanFailures, directory }) => {
      const ageMs = directory ? nowMs - directory.fetchedAtMs : Infinity;
      const isNew = ageMs >= 0 && ageMs < DIRECTORY_NEW_MS;
      const isSilent = lanFailures > 0 || this.#sync.wasUnanswered(peerId);
      return peerIds.has(peerId) && address !== null && !isSilent && !isNew;
    });
    if (asked.length === 0) return;
    const { signal, over } = limitedSignal(FRESHEN_MS, this.#stopping.signal);
    const ended = new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    try {
      await Promise.race([Promise.all(asked.map(({ peerId }) => this.#sync.begin(peerId, 'doubt'))), ended]);
    } finally {
      over();
    }
  }

  /** Pairs with the host that made `code`, at `address`: waits until its owner confirms, or `signal` is aborted. */
  async accept({ code: text, address }: AcceptInput, signal?: AbortSignal): Promise<PeerView | Refusal> {
    const code = parsePairingCode(text);
    if (!code) {
      return refusal('BAD_INPUT', 'That is no pairing code: it has 52 digits and letters in 13 groups.', {
        field: 'code',
      });
    }
    this.#accepting++;
    try {
      await this.#listenAsNeeded();
      return await this.#acceptAt(code, address, signal);
    } catch (error) {
      if (!(error instanceof LanCallFailed)) return cannotListen(error);
      if (PAIRING_FAULTS.has(error.code)) {
        return refusal('PAIRING_REFUSED', `${error.message}: ask for a new code (poste peer invite)`);
      }
      return refusal('PEER_UNREACHABLE', `${error.message}: check the address, and that the invitation is open`);
    } finally {
      this.#accepting--;
      await this.#listenAsNeeded().catch((error) => this.#logNotListening(error));
    }
  }

  async #acceptAt(
    code: NonNullable<ReturnType<typeof parsePairingCode>>,
    address: string,
    signal: AbortSignal | undefined,
  ): Promise<PeerView | Refusal> {
    const inviter = parsePublicKey((await this.#client.hello(address)).pubkey);
    if (!inviter || !isCodeOf(code, inviter)) {
      return refusal(
        'PAIRING_REFUSED',
        `The host at ${address} is not the one that made this code: check the address.`,
      );
    }
    const context = this.#context;
    const parties = { inviter_pubkey: inviter, acceptor_pubkey: context.identity().signer.publicKey };
    const words = await pairingWords(context, this.#listeningAt(), inviter);
    const said = acceptorMessage(context, code.secret, parties, words);
    const answer = await this.#pairAnswer(address, said, signal);
    const encKey = encKeyOf(answer.enc_key, inviter);
    const name = parseHostName(answer.host);
    if (!isFromInviter(answer, code.secret, parties, said.mac) || !encKey || name === undefined) {
      return refusal(
        'PAIRING_REFUSED',
        `The host at ${address} did not prove that it made this code: ask for a new one (poste peer invite there).`,
      );
    }
    const pinned = await context.store.transact((tx) => {
      if (tx.get('identity')?.hostName !== said.host) {
        return refusal(
          'PAIRING_REFUSED',
          `This host was renamed while it was paired, and ${name} knows its former name: ` +
            'ask for a new code (poste peer invite there).',
        );
      }
      return pinPeer(tx, context, {
        hostName: name,
        publicKey: inviter,
        encKey,
        address: answer.address ?? address,
        port: answer.port,
        home: answer.home,
      });
    });
    if (isRefusal(pinned)) return pinned;
    context.log('info', 'a host was paired', { host: pinned.hostName });
    void this.#retries.rerun();
    return peerView(context, pinned);
  }

  async #pairAnswer(address: string, said: LanPairing, signal?: AbortSignal): Promise<LanPairing> {
    const untilMs = this.#context.monotonicMs() + INVITE_MS;
    for (;;) {
      try {
        return await this.#client.pair(address, said);
      } catch (error) {
        const isAskedAgain = error instanceof LanCallFailed && WAITING.has(error.code);
        if (!isAskedAgain || signal?.aborted || this.#context.monotonicMs() > untilMs) throw error;
      }
      await elapsed(ASK_AGAIN_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Changes the listener to what is needed now; throws what listening throws. */
  #listenAsNeeded(): Promise<void> {
    const change = async (): Promise<void> => {
      if (this.#stopping.signal.aborted) return;
      const peers = await this.#context.store.read(livePeers);
      const isWanted = this.#accepting > 0 || this.invitation.isOpen || peers.length > 0;
      if (isWanted && !this.#server) {
        this.#server = await LanServer.listen(this.#options.listen, {
          context: this.#context,
          routes: lanRoutes({
            context: this.#context,
            invite: this.invitation,
            version: this.#options.version,
            listening: () => this.#listeningAt(),
            addressOfCaller: (caller) => this.#addressCheck.addressOfCaller(caller),
            look: this.#look,
            keyLearned: () => void this.#retries.rerun(),
          }),
          called: (peer, from) => void this.#noteCall(peer, from).catch((error) => this.#logFailed(error)),
        });
        this.#context.log('info', 'listening for paired hosts', { port: this.#server.port });
      } else if (!isWanted && this.#server) {
        const server = this.#server;
        this.#server = undefined;
        await server.close();
        this.#context.log('info', 'not listening any more: no host is paired and no invitation is open');
      }
    };
    this.#listening = this.#listening.catch(() => undefined).then(change);
    return this.#listening;
  }

  #listeningAt(): ListeningAt {
    const { advertise, listen } = this.#options;
    return { port: this.port ?? listen.port, address: advertise && listenAddressText(advertise) };
  }

  #shownAddresses(): string[] {
    const { port, address } = this.#listeningAt();
    return address === undefined ? ownAddresses({ host: this.#options.listen.host, port }) : [address];
  }

  #listenAfterwards(): void {
    void this.#listenAsNeeded().catch((error) => this.#logNotListening(error));
  }

  #syncAll(reason: SyncReason): void {
    if (this.#stopping.signal.aborted) return;
    void this.#sync.beginAll(reason).catch((error) => this.#logFailed(error));
  }

  /**
   * A peer called, so it is up; its address may have changed. A peer that accepted an invitation calls when it has
   * stored the pairing; it refused a question about its agents that came before.
   */
  async #noteCall(peer: PeerRow, from: string): Promise<void> {
    if (!peer.directory) void this.#sync.begin(peer.peerId, 'needed');
    const sinceMs = this.#context.nowMs() - (peer.reachedAtMs ?? 0);
    const moved = await this.#addressCheck.addressAfterCall(peer, from);
    const isKnown = moved === undefined && peer.lanFailures === 0 && sinceMs >= 0 && sinceMs < NOTE_CALL_MS;
    if (isKnown || this.#stopping.signal.aborted) return;
    await this.#context.store.transact((tx) => markReached(tx, this.#context, peer.peerId, moved));
  }

  #logNotListening(error: unknown): void {
    if (isStoreFailure(error)) return;
    this.#context.log('error', cannotListen(error).message);
  }

  #logFailed(error: unknown): void {
    if (!isStoreFailure(error)) this.#context.log('error', 'a task of the LAN failed', { err: error });
  }
}

function cannotListen(error: unknown): Refusal {
  if (!(error instanceof ListenFailed)) throw error;
  return refusal('UNAVAILABLE', `${error.message} with lan.listen in the config file.`);
}
