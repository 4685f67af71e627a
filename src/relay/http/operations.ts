/**
 * Every operation of hosts, in the order of the OpenAPI document. An operation is described beside its handler, in the
 * file of its route; the tests hold each answer to the description. `openapi.ts` adds what every operation of an access
 * may answer.
 */
import { CHALLENGE, DENY, ENROL, ROTATE, ROTATION } from './admission.ts';
import { INFO } from './v2-info.ts';
import { ENC_KEY_BY_KEY, ENC_KEY_BY_NAME, PUBLISH_ENC_KEY, PUBLISH_SENDERS } from './publications.ts';
import { PUSH } from './v2-push.ts';
import { PULL, ACK } from './v2-pull.ts';
import { V1_ACK, V1_PULL, V1_PUSH } from './v1-messages.ts';
import { LOG_CHECKPOINT, LOG_CONSISTENCY, LOG_LINK, LOG_PROOF, SHOW_CHECKPOINT } from './v2-log.ts';
import type { HostOperation } from './operation.ts';

export const RELAY_OPERATIONS: readonly HostOperation[] = [
  CHALLENGE,
  ENROL,
  ROTATE,
  ROTATION,
  DENY,
  INFO,
  PUBLISH_SENDERS,
  PUBLISH_ENC_KEY,
  ENC_KEY_BY_NAME,
  ENC_KEY_BY_KEY,
  PUSH,
  PULL,
  ACK,
  V1_PUSH,
  V1_PULL,
  V1_ACK,
  LOG_CHECKPOINT,
  LOG_LINK,
  LOG_CONSISTENCY,
  LOG_PROOF,
  SHOW_CHECKPOINT,
];
