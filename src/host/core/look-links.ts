/**
 * How an earlier head belongs to a later one: by the links back from the newest head, which say how each earlier epoch
 * ended, and by a proof within one epoch.
 *
 * Each link is proven under the tree before it, so a head commits to all that its links lead to. A look follows some of
 * them; the next one goes on where it stopped.
 */
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { LookDraft } from './look-draft.ts';
import { type Asking, headAt, isPartOf, linkOf } from './look-questions.ts';
import type { LogEnd, RelayTrustRow } from './relay-trust.ts';
import { type SignedHead, areForked, isSameHead } from './signed-heads.ts';

/** A look follows them twice at most, once for its head and once for what is held against it: 64 questions. */
const LINKS_OF_LOOK_MAX = 32;
/** What lies further back counts as forgotten. */
const LINKS_MAX = 1024;

/** How an epoch ended; or `none`: the links do not lead to one. `further`: the next look goes on. */
export type Ending = { end: LogEnd } | 'none' | 'refused' | 'further';

export class LogLinks {
  /** The head that commits to all of it. */
  readonly head: SignedHead;
  /** The answers that prove it, as served. */
  readonly documents: unknown[] = [];
  readonly #relayPubkey: PublicKey;
  readonly #ends: LogEnd[] = [];
  /** What the next look goes on from. */
  #walk: NonNullable<RelayTrustRow['walk']> | undefined;
  #isWhole = false;

  constructor(relayPubkey: PublicKey, head: SignedHead) {
    this.#relayPubkey = relayPubkey;
    this.head = head;
  }

  get walk(): RelayTrustRow['walk'] {
    return this.#walk ?? null;
  }

  /** Follows the links back to the end of an epoch that is wanted; `earlier` is how far another look followed them. */
  *endOf(isWanted: (epoch: Epoch) => boolean, earlier: RelayTrustRow['walk'] = null): Asking<Ending> {
    const known = this.#ends.find(({ epoch }) => isWanted(epoch));
    if (known) return { end: known };
    while (!this.#isWhole) {
      if (this.documents.length === LINKS_OF_LOOK_MAX) return 'further';
      const link = yield* linkOf(this.#relayPubkey, this.#walk?.at ?? this.head);
      if (!link) return 'refused';
      this.documents.push(link.document);
      const { leaf, links } = this.#walk ?? { leaf: link.leafHash, links: 0 };
      const { previous } = link;
      this.#isWhole = previous === null || links + 1 === LINKS_MAX;
      if (!previous) break;
      this.#ends.push(previous);
      const isKnownWay = links === 0 && earlier?.leaf === leaf;
      this.#walk = isKnownWay ? earlier : { leaf, links: links + 1, at: previous };
      if (isWanted(previous.epoch)) return { end: previous };
    }
    return 'none';
  }
}

type Joined = 'joined' | 'forked' | 'refused';

/**
 * Joins a head to a later tree of its epoch. `under` is the head that commits to that tree, and how. A relay that does
 * not prove it is asked for its own head of the smaller size: with another root that is a fork.
 */
export function* join(
  draft: LookDraft,
  small: SignedHead,
  large: LogEnd,
  under: Pick<LogLinks, 'head' | 'documents'>,
): Asking<Joined> {
  if (isSameHead(small, large) || (yield* isPartOf(small, large))) return 'joined';
  if (areForked(small, large)) {
    draft.sayFork(small, under.head, under.documents);
    return 'forked';
  }
  const again = yield* headAt(draft.relayPubkey, small.epoch, small.size);
  if (!again || !areForked(small, again)) return 'refused';
  draft.sayFork(small, again);
  return 'forked';
}
