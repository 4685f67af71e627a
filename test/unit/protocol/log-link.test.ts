import { describe, expect, test } from 'vitest';
import { canonicalBytes } from '../../../src/protocol/documents.ts';
import { sha256Hex } from '../../../src/protocol/encodings.ts';
import { logLinkBytes, parseLogLink } from '../../../src/protocol/log-link.ts';
import { epochNumbered } from '../../support/epochs.ts';
import { relay } from '../../support/hosts.ts';

const fields = { relay_pubkey: relay.key, epoch: epochNumbered(2) };
const previous = { epoch: epochNumbered(1), size: 9, root_hash: sha256Hex('root') };
const link = { v: 1, type: 'relay-log-link', ...fields, previous };

describe('a link', () => {
  test.each([null, previous])('is the canonical form of itself: after %j', (before) => {
    const leaf = logLinkBytes({ ...fields, previous: before });
    expect(leaf).toEqual(canonicalBytes({ ...link, previous: before }));
    expect(parseLogLink(leaf)).toEqual({ ...link, previous: before });
  });

  test.each([
    ['no JSON', Buffer.from('{')],
    ['no object', Buffer.from('null')],
    ['another order', Buffer.from(JSON.stringify(link))],
    ['another version', canonicalBytes({ ...link, v: 2 })],
    ['another type', canonicalBytes({ ...link, type: 'relay-accept' })],
    ['no key', canonicalBytes({ ...link, relay_pubkey: 'x' })],
    ['no epoch', canonicalBytes({ ...link, epoch: 5 })],
    ['a text for what came before', canonicalBytes({ ...link, previous: 'x' })],
    ['no epoch before', canonicalBytes({ ...link, previous: { ...previous, epoch: null } })],
    ['half a leaf', canonicalBytes({ ...link, previous: { ...previous, size: 0.5 } })],
    ['no root', canonicalBytes({ ...link, previous: { ...previous, root_hash: 'x' } })],
  ])('is none with %s', (_what, leaf) => {
    expect(parseLogLink(leaf)).toBeUndefined();
  });
});
