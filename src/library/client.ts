/**
 * `poste/client`: speaks to a relay as a host (`RelayClient`), and to the daemon beside the agents (`DaemonClient`).
 *
 * A relay carries sealed bodies only: `sealEnvelope` makes one, `openSeal` reads it. What a relay proves of its log is
 * checked with `checkProofs`, without asking anybody.
 */
export { RelayClient } from '../host/relay/relay-client.ts';
export type { LogConsistency, LogProof, PullOptions, PushResult, RelayInfo } from '../host/relay/relay-client.ts';
export type { ItemToPush, PulledItem, PulledPage } from '../host/relay/relay-forms.ts';
export { AnotherRelay, RelayCallFailed, RelayProblem, callerTrusting } from '../host/relay/relay-request.ts';
export type { RelayClientOptions } from '../host/relay/relay-request.ts';
export { NotOpened, generateSealKey, openSeal, sealEnvelope } from '../host/wire/sealing.ts';
export type { Envelope, EnvelopeHead, SealedContent } from '../host/wire/sealing.ts';
export { NotVerified, checkProofs } from '../relay/replay/proof-check.ts';
export type { CheckedProofs, ProofDocuments } from '../relay/replay/proof-check.ts';
export { CallFailed, DaemonClient } from '../host/api/client.ts';
export type { CallOptions } from '../host/api/client.ts';
export type { InputOf, OperationName, OutputOf } from '../host/api/operations.ts';
export { ownDaemon } from './own-daemon.ts';
export { isReceiptSigned } from '../protocol/receipt-tree.ts';
export { signerFromSeed } from '../protocol/ed25519.ts';
export type { Signer } from '../protocol/ed25519.ts';
