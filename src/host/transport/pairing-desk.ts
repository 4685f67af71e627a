/**
 * The invitation that is open, if there is one: a code that pairs one host, once, within ten minutes.
 *
 * It is kept in memory alone. A daemon that ends takes it with it; then a new code is made.
 */
import type { Office } from '../office/office.ts';
import {
  PAIRING_SECRET_BYTES,
  type PairingParties,
  isPairingMac,
  pairingCodeText,
} from '../../protocol/pairing-code.ts';

export const INVITE_MS = 600_000;
export const INVITE_TRIES_MAX = 5;

interface Invitation {
  secret: Buffer;
  /** By the clock that never goes back. */
  endsAt: number;
  triesLeft: number;
}

/** Why a try did not pair. */
export type InviteFault = 'no invitation is open' | 'the code is wrong' | 'the code is used up';

export class PairingDesk {
  readonly #office: Office;
  #invitation: Invitation | undefined;

  constructor(office: Office) {
    this.#office = office;
  }

  get isOpen(): boolean {
    return this.#current() !== undefined;
  }

  /** Opens an invitation in the place of the one before. */
  open(): { code: string; expiresAtMs: number } {
    const secret = this.#office.randomBytes(PAIRING_SECRET_BYTES);
    this.#invitation = { secret, endsAt: this.#office.monotonicMs() + INVITE_MS, triesLeft: INVITE_TRIES_MAX };
    const code = pairingCodeText(this.#office.identity().signer.publicKey, secret);
    return { code, expiresAtMs: this.#office.nowMs() + INVITE_MS };
  }

  /** The secret, when `mac` proves that the acceptor has it too: that uses up the code. A wrong one costs a try. */
  redeem(mac: string, parties: PairingParties): { secret: Buffer } | InviteFault {
    const invitation = this.#current();
    if (!invitation) return 'no invitation is open';
    if (isPairingMac(mac, invitation.secret, 'acceptor', parties)) {
      // At once: two acceptors may come with one code at the same time.
      this.close();
      return { secret: invitation.secret };
    }
    invitation.triesLeft--;
    if (invitation.triesLeft > 0) return 'the code is wrong';
    this.close();
    return 'the code is used up';
  }

  /** When it could not be listened for, and when the daemon ends. */
  close(): void {
    this.#invitation = undefined;
  }

  #current(): Invitation | undefined {
    if (this.#invitation && this.#invitation.endsAt <= this.#office.monotonicMs()) this.#invitation = undefined;
    return this.#invitation;
  }
}
