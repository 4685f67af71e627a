/**
 * Everything of the LAN that the daemon runs: the listener, pairing, the passes over the outbox, and what peers are told
 * and asked besides mail (a new key of this host, the names of their agents).
 *
 * The listener is up only while a host is paired or an invitation is open.
 */
import { displayFingerprint, parsePublicKey } from '../../protocol/public-key.ts';
import { parseHostName } from '../../protocol/names.ts';
import { isCodeOf, pairingMac, parsePairingCode } from '../../protocol/pairing-code.ts';
import { type ListenAddress, listenAddressText } from '../../system/listen-address.ts';
import { type Refusal, isRefusal, refusal } from '../core/refusal.ts';
import type { PeerRow } from '../core/rows.ts';
import type { AcceptInput, InviteResult, PeerView } from '../documents/peers.ts';
import type { Office } from '../office/office.ts';
import { encKeyOf, livePeers, markReached, peerView, pinPeer } from '../office/peers.ts';
import { retryUnknownKeys } from '../office/quarantine.ts';
import { isStoreFailure } from '../office/store-failure.ts';
import { ownAddresses } from './callable-address.ts';
import { LanCallFailed, LanClient } from './lan-client.ts';
import { encKeyDocument, isInvitersAnswer, lanRoutes, spokenAddress } from './lan-routes.ts';
import { LanServer } from './lan-server.ts';
import { OutboxPass } from './outbox-pass.ts';
import { INVITE_MS, PairingDesk } from './pairing-desk.ts';
import { type LookReason, PeerLook } from './peer-look.ts';
import { PeerMoves } from './peer-moves.ts';

/** How often peers are looked at for what they do not know yet and what is not known of them. */
const LOOK_ROUND_MS = 60_000;
/** A call of a peer is noted in its row no more often than this. */
const NOTE_CALL_MS = 60_000;

/** What an inviter answers that another code is needed for. */
const PAIRING_FAULTS: ReadonlySet<string> = new Set(['ENROL_REFUSED', 'BAD_SIGNATURE', 'BAD_REQUEST']);

export interface LanSideOptions {
  office: Office;
  listen: ListenAddress;
  advertise: ListenAddress | undefined;
  version: string;
}

export class LanSide {
  readonly #options: LanSideOptions;
  readonly #office: Office;
  readonly #stopping = new AbortController();
  readonly #client: LanClient;
  readonly #desk: PairingDesk;
  readonly #pass: OutboxPass;
  readonly #look: PeerLook;
  readonly #moves: PeerMoves;
  #server: LanServer | undefined;
  /** Changes of the listener, one after another. */
  #listening: Promise<void> = Promise.resolve();
  #retries: Promise<void> = Promise.resolve();
  /** Pairings under way that this host accepts: the other side is told where this one listens. */
  #accepting = 0;
  #inviteTimer: NodeJS.Timeout | undefined;
  #roundTimer: NodeJS.Timeout | undefined;
  #unlisten: () => void = () => undefined;

  constructor(options: LanSideOptions) {
    this.#options = options;
    this.#office = options.office;
    this.#client = new LanClient(options.office, this.#stopping.signal);
    this.#desk = new PairingDesk(options.office);
    this.#pass = new OutboxPass({
      office: options.office,
      client: this.#client,
      doubted: (peerId) => this.#look.begin(peerId, 'doubt'),
    });
    this.#look = new PeerLook({
      office: options.office,
      client: this.#client,
      told: (peerId) => this.#pass.begin(peerId),
    });
    this.#moves = new PeerMoves(options.office, this.#client);
  }

  /** Listens when a host is paired and begins to send. A port that is taken is said in the log and tried again. */
  async start(): Promise<void> {
    this.#unlisten = this.#office.listen((happening) => {
      if (happening.type === 'outbox-changed') this.#pass.begin(happening.peerId);
      if (happening.type === 'peers-changed') this.#listenAfterwards();
      if (happening.type === 'peers-changed' || happening.type === 'identity-changed') this.#lookRound('needed');
    });
    await this.#listenAsNeeded().catch((error) => this.#sayNotListening(error));
    this.#roundTimer = setInterval(() => {
      this.#listenAfterwards();
      this.#lookRound('needed');
    }, LOOK_ROUND_MS);
    await this.#pass.beginAll();
    // Peers whose mail for this host waits see that it is there.
    this.#lookRound('doubt');
  }

  /** Ends calls and passes, answers what was asked, and closes the listener. */
  async stop(): Promise<void> {
    this.#unlisten();
    clearInterval(this.#roundTimer);
    clearTimeout(this.#inviteTimer);
    this.#desk.close();
    this.#stopping.abort();
    await Promise.all([this.#pass.stop(), this.#look.stop(), this.#listening.catch(() => undefined)]);
    await this.#server?.close();
    this.#server = undefined;
    await this.#retries;
  }

  /** Where it listens; `undefined` while it does not. */
  get port(): number | undefined {
    return this.#server?.port;
  }

  async invite(): Promise<InviteResult | Refusal> {
    const { code, expiresAtMs } = this.#desk.open();
    try {
      await this.#listenAsNeeded();
    } catch (error) {
      this.#desk.close();
      return cannotListen(this.#options.listen, error);
    }
    clearTimeout(this.#inviteTimer);
    // Nothing but the listener depends on it: the desk itself looks at the clock.
    this.#inviteTimer = setTimeout(() => this.#listenAfterwards(), INVITE_MS + 1000);
    const { publicKey } = this.#office.identity().signer;
    const fingerprint = displayFingerprint(publicKey);
    return { code, expires_at: expiresAtMs, addresses: this.#shownAddresses(), fingerprint };
  }

  /** Pairs with the host that made `code`, at `address`. */
  async accept({ code: text, address }: AcceptInput): Promise<PeerView | Refusal> {
    const code = parsePairingCode(text);
    if (!code) {
      return refusal('BAD_INPUT', 'That is no pairing code: it has 52 digits and letters in 13 groups.', {
        field: 'code',
      });
    }
    this.#accepting++;
    try {
      await this.#listenAsNeeded();
      return await this.#acceptAt(code, address);
    } catch (error) {
      if (!(error instanceof LanCallFailed)) return cannotListen(this.#options.listen, error);
      if (PAIRING_FAULTS.has(error.code)) {
        return refusal('PAIRING_REFUSED', `${error.message}: ask for a new code (poste pair invite)`);
      }
      return refusal('PEER_UNREACHABLE', `${error.message}: check the address, and that the invitation is open`);
    } finally {
      this.#accepting--;
      await this.#listenAsNeeded().catch((error) => this.#sayNotListening(error));
    }
  }

  async #acceptAt(
    code: NonNullable<ReturnType<typeof parsePairingCode>>,
    address: string,
  ): Promise<PeerView | Refusal> {
    const inviter = parsePublicKey((await this.#client.hello(address)).pubkey);
    if (!inviter || !isCodeOf(code, inviter)) {
      return refusal('PAIRING_REFUSED', `The host at ${address} is not the one that made this code.`);
    }
    const office = this.#office;
    const { hostName, signer } = office.identity();
    const parties = { inviter_pubkey: inviter, acceptor_pubkey: signer.publicKey };
    const answer = await this.#client.pair(address, {
      host: hostName,
      pubkey: signer.publicKey,
      enc_key: encKeyDocument(office),
      mac: pairingMac(code.secret, 'acceptor', parties),
      ...spokenAddress(this.#listeningAt()),
    });
    const encKey = encKeyOf(answer.enc_key, inviter);
    const name = parseHostName(answer.host);
    if (!isInvitersAnswer(answer, code.secret, parties) || !encKey || name === undefined) {
      return refusal('PAIRING_REFUSED', `The host at ${address} did not prove that it made this code.`);
    }
    const pinned = await office.store.transact((tx) =>
      pinPeer(tx, office, { hostName: name, publicKey: inviter, encKey, address: answer.address ?? address }),
    );
    if (isRefusal(pinned)) return pinned;
    office.log('info', 'a host was paired', { host: pinned.hostName });
    this.#retryQuarantine();
    return peerView(pinned, office.nowMs());
  }

  /** Changes the listener to what is needed now; throws what listening throws. */
  #listenAsNeeded(): Promise<void> {
    const change = async (): Promise<void> => {
      if (this.#stopping.signal.aborted) return;
      const peers = await this.#office.store.read(livePeers);
      const isWanted = this.#accepting > 0 || this.#desk.isOpen || peers.length > 0;
      if (isWanted && !this.#server) {
        this.#server = await LanServer.listen(this.#options.listen, {
          office: this.#office,
          routes: lanRoutes({
            office: this.#office,
            desk: this.#desk,
            version: this.#options.version,
            listening: () => this.#listeningAt(),
            keyLearned: () => this.#retryQuarantine(),
          }),
          called: (peer, from) => void this.#noteCall(peer, from).catch((error) => this.#sayFailed(error)),
        });
        this.#office.log('info', 'listening for paired hosts', { port: this.#server.port });
      } else if (!isWanted && this.#server) {
        const server = this.#server;
        this.#server = undefined;
        await server.close();
        this.#office.log('info', 'not listening any more: no host is paired and no invitation is open');
      }
    };
    this.#listening = this.#listening.catch(() => undefined).then(change);
    return this.#listening;
  }

  #listeningAt(): { port: number; address: string | undefined } {
    const { advertise, listen } = this.#options;
    return { port: this.port ?? listen.port, address: advertise && listenAddressText(advertise) };
  }

  #shownAddresses(): string[] {
    const { port, address } = this.#listeningAt();
    return address === undefined ? ownAddresses({ host: this.#options.listen.host, port }) : [address];
  }

  #listenAfterwards(): void {
    void this.#listenAsNeeded().catch((error) => this.#sayNotListening(error));
  }

  #lookRound(reason: LookReason): void {
    if (this.#stopping.signal.aborted) return;
    void this.#look.beginAll(reason).catch((error) => this.#sayFailed(error));
  }

  /** A peer called: it is there, and may be somewhere else than before. */
  async #noteCall(peer: PeerRow, from: string): Promise<void> {
    const sinceMs = this.#office.nowMs() - (peer.reachedAtMs ?? 0);
    const moved = await this.#moves.addressAfterCall(peer, from);
    const isKnown = moved === undefined && peer.lanFailures === 0 && sinceMs >= 0 && sinceMs < NOTE_CALL_MS;
    if (isKnown || this.#stopping.signal.aborted) return;
    await this.#office.store.transact((tx) => markReached(tx, this.#office, peer.peerId, moved));
  }

  /** Something in quarantine may wait for a key that was just learned. */
  #retryQuarantine(): void {
    this.#retries = this.#retries.then(async () => {
      try {
        if (!this.#stopping.signal.aborted) await retryUnknownKeys(this.#office);
      } catch (error) {
        this.#sayFailed(error);
      }
    });
  }

  #sayNotListening(error: unknown): void {
    if (isStoreFailure(error)) return;
    this.#office.log('error', cannotListen(this.#options.listen, error).message);
  }

  #sayFailed(error: unknown): void {
    if (!isStoreFailure(error)) this.#office.log('error', 'something of the LAN failed', { err: error });
  }
}

function cannotListen(listen: ListenAddress, error: unknown): Refusal {
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (code === undefined || (syscall !== 'listen' && syscall !== 'getaddrinfo')) throw error;
  const where = listenAddressText(listen);
  return refusal(
    'UNAVAILABLE',
    `${where} cannot be listened at (${code}): choose another with lan.listen in the config file.`,
  );
}
