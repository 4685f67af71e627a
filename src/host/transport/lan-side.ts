/**
 * Everything of the LAN that the daemon runs: the listener, pairing, the passes over the outbox, and what peers are told
 * and asked besides mail (a new key of this host, the names of their agents).
 *
 * The listener is up only while a host is paired or an invitation is open.
 */
import { displayFingerprint, parsePublicKey } from '../../protocol/public-key.ts';
import { parseHostName } from '../../protocol/names.ts';
import { isCodeOf, pairingMac, parsePairingCode } from '../../protocol/pairing-code.ts';
import { type ListenAddress, listenAddressText, parseListenAddress } from '../../system/listen-address.ts';
import { type Refusal, isRefusal, refusal } from '../core/refusal.ts';
import type { PeerId, PeerRow } from '../core/rows.ts';
import type { AcceptInput, InviteResult, PeerView } from '../documents/peers.ts';
import type { Office } from '../office/office.ts';
import { currentKey, encKeyOf, learnDirectory, livePeers, markReached, peerView, pinPeer } from '../office/peers.ts';
import { retryUnknownKeys } from '../office/quarantine.ts';
import { isStoreFailure } from '../office/store-failure.ts';
import { LanCallFailed, LanClient } from './lan-client.ts';
import { encKeyDocument, isInvitersAnswer, lanRoutes, spokenAddress } from './lan-routes.ts';
import { LanServer } from './lan-server.ts';
import { OutboxPass } from './outbox-pass.ts';
import { INVITE_MS, PairingDesk } from './pairing-desk.ts';
import { tellOwnKey } from './tell-own-key.ts';

/** How old the names of a peer's agents get before they are asked for again. */
const DIRECTORY_FRESH_MS = 300_000;
/** How often peers are looked at for what they do not know yet and what is not known of them. */
const LOOK_ROUND_MS = 60_000;
/** A call of a peer is noted in its row no more often than this. */
const NOTE_CALL_MS = 60_000;

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
  #server: LanServer | undefined;
  /** Changes of the listener, one after another. */
  #listening: Promise<void> = Promise.resolve();
  #rounds: Promise<void> = Promise.resolve();
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
      notKnown: (peerId) => this.#lookRound([peerId]),
    });
  }

  /** Listens when a host is paired and begins to send. A port that is taken is said in the log and tried again. */
  async start(): Promise<void> {
    this.#unlisten = this.#office.listen((happening) => {
      if (happening.type === 'outbox-changed') this.#pass.begin(happening.peerId);
      if (happening.type === 'peers-changed')
        void this.#listenAsNeeded().catch((error) => this.#sayNotListening(error));
      if (happening.type === 'peers-changed' || happening.type === 'identity-changed') this.#lookRound();
    });
    await this.#listenAsNeeded().catch((error) => this.#sayNotListening(error));
    this.#roundTimer = setInterval(() => {
      void this.#listenAsNeeded().catch((error) => this.#sayNotListening(error));
      this.#lookRound();
    }, LOOK_ROUND_MS);
    await this.#pass.beginAll();
    this.#lookRound();
  }

  /** Ends calls and passes, answers what was asked, and closes the listener. */
  async stop(): Promise<void> {
    this.#unlisten();
    clearInterval(this.#roundTimer);
    clearTimeout(this.#inviteTimer);
    this.#desk.close();
    this.#stopping.abort();
    await Promise.all([this.#pass.stop(), this.#rounds, this.#listening.catch(() => undefined)]);
    await this.#server?.close();
    this.#server = undefined;
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
    this.#inviteTimer = setTimeout(
      () => void this.#listenAsNeeded().catch((error) => this.#sayNotListening(error)),
      INVITE_MS + 1000,
    );
    const { publicKey } = this.#office.identity().signer;
    return { code, expires_at: expiresAtMs, address: this.#shownAddress(), fingerprint: displayFingerprint(publicKey) };
  }

  /** Pairs with the host that made `code`, at `address`. */
  async accept({ code: text, address }: AcceptInput): Promise<PeerView | Refusal> {
    const code = parsePairingCode(text);
    if (!code) {
      return refusal('BAD_INPUT', 'That is no pairing code: it has 52 digits and letters in 13 groups.', {
        field: 'code',
      });
    }
    const called = parseListenAddress(address);
    if (!called || called.port === 0) {
      return refusal('BAD_INPUT', 'The address must be host:port, as in 192.168.1.7:8789.', { field: 'address' });
    }
    try {
      await this.#listenAsNeeded(true);
    } catch (error) {
      return cannotListen(this.#options.listen, error);
    }
    try {
      return await this.#acceptAt(code, listenAddressText(called));
    } catch (error) {
      if (!(error instanceof LanCallFailed)) throw error;
      if (error.isAnswered && error.code === 'ENROL_REFUSED') {
        return refusal('PAIRING_REFUSED', `${error.message}. Ask for a new code: poste pair invite.`);
      }
      return refusal('PEER_UNREACHABLE', `${error.message}. Check the address and that the invitation is open.`);
    } finally {
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
    await retryUnknownKeys(office);
    return peerView(pinned, office.nowMs());
  }

  /** Changes the listener to what is needed now; throws what listening throws. */
  #listenAsNeeded(isNeeded = false): Promise<void> {
    const change = async (): Promise<void> => {
      if (this.#stopping.signal.aborted) return;
      const peers = await this.#office.store.read(livePeers);
      const isWanted = isNeeded || this.#desk.isOpen || peers.length > 0;
      if (isWanted && !this.#server) {
        this.#server = await LanServer.listen(this.#options.listen, {
          office: this.#office,
          routes: lanRoutes({
            office: this.#office,
            desk: this.#desk,
            version: this.#options.version,
            listening: () => this.#listeningAt(),
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

  #shownAddress(): string {
    const { port, address } = this.#listeningAt();
    return address ?? listenAddressText({ host: this.#options.listen.host, port });
  }

  /** A peer called: it is there, and may be somewhere else than before. */
  async #noteCall(peer: PeerRow, from: string): Promise<void> {
    const known = peer.address === null ? undefined : parseListenAddress(peer.address);
    const isLoopbackName = known !== undefined && /[a-z]/i.test(known.host) && !known.host.includes(':');
    // A name is resolved anew for every call, an address is not.
    const moved = known && !isLoopbackName && known.host !== from ? { host: from, port: known.port } : undefined;
    const isFresh = peer.reachedAtMs !== null && this.#office.nowMs() - peer.reachedAtMs < NOTE_CALL_MS;
    if (!moved && isFresh && peer.lanFailures === 0) return;
    await this.#office.store.transact((tx) =>
      markReached(tx, this.#office, peer.peerId, moved && listenAddressText(moved)),
    );
  }

  /** Tells peers what they do not know and asks what is not known of them; one round at a time. */
  #lookRound(only?: readonly PeerId[]): void {
    if (this.#stopping.signal.aborted) return;
    const round = async (): Promise<void> => {
      const peers = await this.#office.store.read(livePeers);
      await Promise.all(
        peers
          .filter(({ peerId }) => !only || only.includes(peerId))
          .map((peer) => this.#lookAt(peer, only !== undefined)),
      );
    };
    this.#rounds = this.#rounds.then(round).catch((error) => this.#sayFailed(error));
  }

  async #lookAt(peer: PeerRow, tellAnyway: boolean): Promise<void> {
    if (this.#stopping.signal.aborted || peer.address === null) return;
    const host = { address: peer.address, publicKey: currentKey(peer).publicKey };
    try {
      if (await tellOwnKey(this.#office, this.#client, { ...host, peer }, tellAnyway)) this.#pass.begin(peer.peerId);
      const { directory } = peer;
      if (directory && this.#office.nowMs() - directory.fetchedAtMs < DIRECTORY_FRESH_MS) return;
      const agents = await this.#client.agents(host);
      await this.#office.store.transact((tx) => learnDirectory(tx, this.#office, peer.peerId, agents));
    } catch (error) {
      if (!(error instanceof LanCallFailed)) throw error;
    }
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
  const { code } = error as NodeJS.ErrnoException;
  if (code === undefined) throw error;
  const where = listenAddressText(listen);
  return refusal(
    'UNAVAILABLE',
    `${where} cannot be listened at (${code}): choose another with lan.listen in the config file.`,
  );
}
