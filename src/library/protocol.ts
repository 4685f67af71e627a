/**
 * `poste/protocol`: the bytes of the protocol, for clients and for those who check it. docs/protocol.md explains them,
 * and `test/vectors` of the repository holds examples of each.
 */
export { decodeBase64, encodeBase64, sha256Hex } from '../protocol/encodings.ts';
export type { Sha256Hex } from '../protocol/encodings.ts';
export { NotCanonicalisable, canonicalBytes, canonicalJson } from '../protocol/documents.ts';
export { noteText, openCheckpoint, openNote, plainNote, signCheckpoint, signNote } from '../protocol/checkpoint.ts';
export type { Checkpoint } from '../protocol/checkpoint.ts';
export {
  acceptReceipt,
  acceptTree,
  cloudKeyCertificate,
  deliveryReceipt,
  encKeyAdvertisement,
  enrolClaim,
  expiryNotice,
  homeRelays,
  hostRotation,
  isDocumentSigned,
  senderList,
  signDocument,
  receiptTree,
} from '../protocol/documents.ts';
export type {
  AcceptReceipt,
  AcceptTree,
  CloudKeyCertificate,
  DeliveryReceipt,
  DeliveryState,
  EncKeyAdvertisement,
  EnrolClaim,
  ExpiryNotice,
  HomeRelay,
  HomeRelays,
  HostRotation,
  SenderList,
} from '../protocol/documents.ts';
export { SEED_BYTES, signerFromSeed, verifySignature } from '../protocol/ed25519.ts';
export type { Signer } from '../protocol/ed25519.ts';
export { EPOCH_RANDOM_BYTES, epochFromRandom, parseEpoch } from '../protocol/names.ts';
export type { Epoch } from '../protocol/names.ts';
export {
  HOME_RELAYS_BYTES_MAX,
  HOME_RELAYS_MAX,
  homeRelaysText,
  isHomeUrl,
  readHomeRelays,
  signHomeRelays,
} from '../protocol/home-relays.ts';
export type { HomeRelaysFault, SignedHomeRelays } from '../protocol/home-relays.ts';
export {
  HOP_HEADERS,
  HOP_SKEW_MAX_MS,
  RECEIPTS_HEADER,
  TREE_RECEIPTS,
  hopLanMessage,
  hopV1Message,
  hopV2Message,
  parseHopTimestamp,
  signedTarget,
} from '../protocol/hop.ts';
export type { HopFields } from '../protocol/hop.ts';
export { ITEM_REJECTIONS, inspectEnvelope, isSignedReceipt, parsePushedItem } from '../protocol/items.ts';
export type { ItemKind, ItemRejection, PushedItem, PushedKind, PushedTarget } from '../protocol/items.ts';
export { DEFAULT_LIMITS } from '../protocol/limits.ts';
export type { Limits } from '../protocol/limits.ts';
export { parseLogLink } from '../protocol/log-link.ts';
export { leafHash, verifyConsistency, verifyInclusion } from '../protocol/merkle.ts';
export { parseMessageId, parseReceiptId } from '../protocol/names.ts';
export type { HostName, ItemId } from '../protocol/names.ts';
export { parsePairingCode, pairingCodeText } from '../protocol/pairing-code.ts';
export { PROBLEMS } from '../protocol/problem.ts';
export type { ProblemCode, ProblemDocument } from '../protocol/problem.ts';
export {
  displayFingerprint,
  hostFingerprint,
  parseFingerprint,
  parsePublicKey,
  publicKeyBytes,
  publicKeyFromBytes,
} from '../protocol/public-key.ts';
export { isAcceptablePoint } from '../protocol/acceptable-point.ts';
export type { PublicKey } from '../protocol/public-key.ts';
export { KNEW_BYTES, afterOf, knewHolds, makeKnew, markOf, noteHash, parseHeard, parseSeen } from '../protocol/seen.ts';
export type { SeenEntry } from '../protocol/seen.ts';
export { isReceiptSigned, receiptSignatureOf } from '../protocol/receipt-tree.ts';
export type { ReceiptPlace, ReceiptSignature } from '../protocol/receipt-tree.ts';
