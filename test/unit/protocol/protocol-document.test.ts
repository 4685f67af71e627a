/**
 * The protocol document says what the code does, wherever a machine can tell: codes, limits, rejections, routes, and
 * every example, which has to be a part of the vectors and to verify as it stands on the page.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { vectorFiles } from '../../../scripts/make-vectors.ts';
import { LINEAGE_KEYS_MAX } from '../../../src/relay/core/decide-rotation.ts';
import { serveCommand } from '../../../src/cli/relay/serve.ts';
import { commandContext } from '../../support/command-run.ts';
import { isObject } from '../../../src/protocol/json.ts';
import { canonicalBytes, canonicalJson } from '../../../src/protocol/documents.ts';
import { sha256Hex } from '../../../src/protocol/encodings.ts';
import { verifySignature } from '../../../src/protocol/ed25519.ts';
import { HOP_SKEW_MAX_MS, hopV2Message } from '../../../src/protocol/hop.ts';
import { ITEM_REJECTIONS } from '../../../src/protocol/items.ts';
import {
  BODY_BYTES_MAX,
  CHALLENGE_LIFETIME_MS,
  CROWDED_NAME_ENROLMENTS,
  DEFAULT_LIMITS,
  ISSUED_AHEAD_MAX_MS,
  LISTED_SENDERS_MAX,
  PUBLICATIONS_PER_HOUR,
  LOG_READS_OF_STRANGERS_PER_SECOND,
  LOG_READS_PER_MINUTE,
  OPEN_CHALLENGES_MAX,
  OPEN_CHALLENGES_PER_KEY_AND_ADDRESS,
  SMALL_BODY_BYTES_MAX,
  WAIT_SECONDS_MAX,
  PAGE_BYTES_A_WORK,
  PLACES_A_WORK,
  WORK_OF_MOVED_ITEM,
  WORK_OF_REQUEST,
  WORK_PER_PUSH,
} from '../../../src/protocol/limits.ts';
import { HOST_NAME_PATTERN, ITEM_ID_CHARACTERS_MAX, OWNER_FP_PATTERN } from '../../../src/protocol/names.ts';
import { PROBLEMS } from '../../../src/protocol/problem.ts';
import { type PublicKey, parsePublicKey } from '../../../src/protocol/public-key.ts';
import { PROTOCOL_DOCUMENT, fencedBlocks, tableRows } from '../../support/protocol-document.ts';
import { type SessionCase, type SessionFile, readVectors } from '../../support/vectors/oracle.ts';

const SOURCES = join(import.meta.dirname, '../../../src');
const blocks = fencedBlocks(PROTOCOL_DOCUMENT);

describe('the protocol document: tables', () => {
  it('has every problem code with its status, once, and no other', () => {
    const rows = tableRows(PROTOCOL_DOCUMENT, 'status', 'code', 'when').map(([status, code]) => `${status} ${code}`);
    const codes = Object.entries(PROBLEMS).map(([code, { status }]) => `${status} ${code}`);
    expect(rows.toSorted()).toEqual(codes.toSorted());
  });

  it('has the default of every limit, and no other limit', () => {
    const rows = tableRows(PROTOCOL_DOCUMENT, 'limit', 'default', '').map(([name, value]) => [name, Number(value)]);
    expect(Object.fromEntries(rows)).toEqual(DEFAULT_LIMITS);
  });

  it('has the limits that info does not tell', () => {
    const rows = tableRows(PROTOCOL_DOCUMENT, 'limit', 'value', '');
    const values = Object.fromEntries(rows.map(([name = '', value = '']) => [name, Number(/^\d+/.exec(value)?.[0])]));
    expect(values).toEqual({
      'clock of a hop': HOP_SKEW_MAX_MS,
      'dating ahead': ISSUED_AHEAD_MAX_MS,
      challenge: CHALLENGE_LIFETIME_MS,
      'body of an open route': SMALL_BODY_BYTES_MAX,
      'any other body': BODY_BYTES_MAX,
      wait: WAIT_SECONDS_MAX,
      'sender lists, and encryption keys': PUBLICATIONS_PER_HOUR,
      'senders in a list': LISTED_SENDERS_MAX,
      work: defaultOf('--pushes-per-minute') * WORK_PER_PUSH,
      'crowded name': CROWDED_NAME_ENROLMENTS,
      pushes: defaultOf('--pushes-per-minute'),
      'challenges, and enrolments': defaultOf('--enrol-rate'),
      'checkpoints, links and consistency proofs': LOG_READS_PER_MINUTE,
      'the same without a hop': LOG_READS_OF_STRANGERS_PER_SECOND,
      'keys of a host': LINEAGE_KEYS_MAX,
      'live enrolments': defaultOf('--max-enrolments'),
      'dedup rows': defaultOf('--max-dedup-rows'),
    });
    const units = tableRows(PROTOCOL_DOCUMENT, 'work', 'units').map(([, words]) => words);
    expect(units).toEqual([
      `${WORK_OF_REQUEST}`,
      `1, and 1 for each ${PAGE_BYTES_A_WORK.toLocaleString('en')} bytes`,
      `${WORK_OF_MOVED_ITEM}`,
      `1 for each ${PLACES_A_WORK}`,
    ]);
    const challenge = rows.find(([name]) => name === 'challenge');
    expect(challenge?.[2]).toContain(
      `at most ${OPEN_CHALLENGES_MAX.toLocaleString('en')} open, ${OPEN_CHALLENGES_PER_KEY_AND_ADDRESS} per key`,
    );
  });

  it('has every rejection, in the order in which they are checked', () => {
    const rejections = ITEM_REJECTIONS.map((words) => `rejected:${words}`);
    const rows = tableRows(PROTOCOL_DOCUMENT, 'status', 'meaning').map(([status]) => status);
    expect(rows).toEqual(['accepted', 'duplicate', ...rejections]);
  });

  it('has every route that the source names, and a section for each of its own', () => {
    const listed = tableRows(PROTOCOL_DOCUMENT, 'method', 'path', 'access', 'largest body');
    const paths = new Set(listed.map(([, path]) => path));
    const named = httpSources().flatMap((text) => text.match(/(?<=')\/v[12]\/relay\/[a-z/-]+(?=')/g) ?? []);
    expect(new Set(named).size).toBeGreaterThan(8);
    for (const path of named) expect(paths).toContain(path);
    const sections = [...PROTOCOL_DOCUMENT.matchAll(/^### (?<route>(?:GET|POST) .*)$/gm)].map(
      ({ groups }) => groups?.['route'],
    );
    expect(sections).toHaveLength(listed.length);
    expect(new Set(sections)).toEqual(new Set(listed.map(([method, path]) => `${method} ${path}`)));
  });

  it('has the patterns and lengths of names', () => {
    for (const words of [HOST_NAME_PATTERN, OWNER_FP_PATTERN, `at most ${ITEM_ID_CHARACTERS_MAX} characters`]) {
      expect(PROTOCOL_DOCUMENT).toContain(words);
    }
  });

  it('has the type of every signed document', () => {
    const source = readFileSync(join(SOURCES, 'protocol/documents.ts'), 'utf8');
    const types = Array.from(source.matchAll(/^ {2}type: '(?<type>[a-z-]+)';$/gm), ({ groups }) => groups?.['type']);
    const rows = tableRows(PROTOCOL_DOCUMENT, '`type` (`v` is 1)', 'other members', 'signed by', 'travels as');
    // Envelopes are made by the host side alone.
    expect(new Set(rows.map(([type]) => type))).toEqual(new Set([...types, 'envelope']));
    expect(types.length).toBeGreaterThan(8);
    // So no signature is good for two kinds.
    expect(new Set(types).size).toBe(types.length);
  });

  it('has every vector file', async () => {
    const rows = tableRows(PROTOCOL_DOCUMENT, 'file', 'holds').map(([file]) => file);
    expect(new Set(rows)).toEqual(new Set((await vectorFiles()).keys()));
  });

  it('has no link that leads nowhere inside the page', () => {
    const headings = [...PROTOCOL_DOCUMENT.matchAll(/^#+ (?<text>.*)$/gm)].map(({ groups }) => slug(groups?.['text']));
    const links = [...PROTOCOL_DOCUMENT.matchAll(/\]\(#(?<target>[^)]*)\)/g)].map(({ groups }) => groups?.['target']);
    expect(links.length).toBeGreaterThan(15);
    for (const link of links) expect(headings).toContain(link);
  });
});

function defaultOf(flag: string): number {
  return Number(serveCommand(commandContext()).options.find(({ long }) => long === flag)?.defaultValue);
}

function httpSources(): string[] {
  const folder = join(SOURCES, 'relay/http');
  return readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8'));
}

/** As GitHub makes the anchor of a heading. */
function slug(heading = ''): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^a-z0-9 -]/g, '')
    .replaceAll(' ', '-');
}

/** Returns what a label leads to in the vectors. */
function labelled(label: string): unknown {
  const [file = '', name = '', path = ''] = label.split(' > ');
  const { cases } = readVectors(file) as { cases: Record<string, unknown>[] };
  let value: unknown = cases.find((one) => one['name'] === name);
  for (const member of path === '' ? [] : path.split('.')) {
    value = isObject(value) || Array.isArray(value) ? (value as Record<string, unknown>)[member] : undefined;
  }
  if (value === undefined) throw new Error(`no vector is called ${label}`);
  return value;
}

const ofLanguage = (language: string) => blocks.filter((block) => block.language === language);

interface ShownRequest {
  method: string;
  target: string;
  headers: Record<string, string>;
  body: string | null;
}

function requestOf(text: string): ShownRequest {
  const [head = '', body] = text.split('\n\n');
  const [first = '', ...lines] = head.split('\n');
  const [method = '', target = '', version] = first.split(' ');
  expect(version).toBe('HTTP/1.1');
  const headers = Object.fromEntries(lines.map((line) => line.split(': ') as [string, string]));
  return { method, target, headers, body: body ?? null };
}

describe('the protocol document: examples', () => {
  it('every block has a language that is checked, and a label', () => {
    expect(blocks.filter(({ label }) => label === '')).toEqual([]);
    expect(new Set(blocks.map(({ language }) => language))).toEqual(new Set(['http', 'json', 'text']));
    expect(PROTOCOL_DOCUMENT.match(/^```/gm)).toHaveLength(2 * blocks.length);
  });

  it.each(ofLanguage('json'))('$label', ({ label, text }) => {
    expect(JSON.parse(text)).toEqual(labelled(label));
  });

  it.each(ofLanguage('text'))('$label', ({ label, text }) => {
    expect(text).toBe(labelled(label));
  });

  it.each(ofLanguage('http'))('$label', ({ label, text }) => {
    const { signed_message: _signed, ...request } = (labelled(label) as SessionCase).request;
    expect(requestOf(text)).toEqual(request);
  });

  it('the session is told in its order', () => {
    const { cases } = readVectors('session.json') as SessionFile;
    const names = cases.map(({ name }) => name);
    const told = ofLanguage('http').map(({ label }) => names.indexOf(label.split(' > ')[1] ?? ''));
    expect(told.length).toBeGreaterThan(9);
    expect(told).toEqual(told.toSorted((one, other) => one - other));
  });
});

const relayPubkey = (
  labelled('session.json > anybody asks who the relay is > response.body') as Record<string, PublicKey>
)['relay_pubkey']!;

describe('the protocol document: what is signed on the page verifies on the page', () => {
  const hops = ofLanguage('http').filter(({ text }) => text.includes('x-mail-sig: '));

  it.each(hops)('the hop of $label', ({ text }) => {
    const { method, target, headers, body } = requestOf(text);
    const fields = { method, target, timestamp: headers['x-mail-ts'] ?? '', bodyHash: sha256Hex(body ?? '') };
    const key = parsePublicKey(headers['x-mail-key'])!;
    expect(verifySignature(key, hopV2Message(fields, relayPubkey), headers['x-mail-sig'])).toBe(true);
    expect(headers['content-length']).toBe(body === null ? undefined : String(Buffer.byteLength(body)));
  });

  it('there are hops, receipts and envelopes to verify', () => {
    expect(hops.length).toBeGreaterThan(6);
    expect(blocks.flatMap(({ text }) => signedParts(jsonIn(text))).length).toBeGreaterThan(4);
  });

  const signedBlocks = blocks.filter(({ text }) => signedParts(jsonIn(text)).length > 0);
  it.each(signedBlocks)('the documents of $label', ({ text }) => {
    for (const { key, document, sig } of signedParts(jsonIn(text))) {
      expect(verifySignature(key, canonicalBytes(document), sig)).toBe(true);
    }
  });

  it('the canonical form of the enrolment is that of the document above it', () => {
    const document = labelled('enrolment.json > without an owner_fp > document');
    const shown = blocks.find(({ label }) => label === 'enrolment.json > without an owner_fp > canonical');
    expect(shown?.text).toBe(canonicalJson(document));
    const enrols = blocks.find(({ label }) => label === 'session.json > alice-mac enrols');
    const { pubkey, sig } = jsonIn(enrols?.text ?? '') as { pubkey: PublicKey; sig: string };
    expect(verifySignature(pubkey, canonicalBytes(document), sig)).toBe(true);
  });
});

/** The JSON of a block: all of it, or the body of a request. */
function jsonIn(text: string): unknown {
  const json = text.startsWith('{') ? text : (text.split('\n\n')[1] ?? 'null');
  return JSON.parse(json);
}

interface SignedPart {
  key: PublicKey;
  document: unknown;
  sig: string;
}

/**
 * Returns what in `value` is signed by a key that it shows: accept receipts, lists, advertisements, envelopes,
 * receipts.
 */
function signedParts(value: unknown): SignedPart[] {
  if (Array.isArray(value)) return value.flatMap(signedParts);
  if (!isObject(value)) return [];
  const inside = Object.entries(value).flatMap(([name, member]) =>
    signedParts(name === 'wire_b64' ? wire(member) : member),
  );
  return [...ownPart(value), ...inside];
}

function ownPart(value: Record<string, unknown>): SignedPart[] {
  const { sig, accept, list, rec, enc_pub, host_pubkey, type, hops: _hops, ...others } = value;
  if (typeof sig !== 'string') return [];
  const part = (key: unknown, document: unknown): SignedPart[] => [{ key: key as PublicKey, document, sig }];
  if (isObject(accept)) return part(relayPubkey, accept);
  if (isObject(list)) return part(list['host_pubkey'], list);
  if (isObject(rec)) return part(rec['host_pubkey'], rec);
  if (host_pubkey !== undefined)
    return part(host_pubkey, { v: 1, type: 'relay-enc-key', host_pubkey, enc_pub, ...others });
  if (type === 'envelope') return part(others['from_host_pubkey'], { type, ...others });
  return [];
}

function wire(base64: unknown): unknown {
  return JSON.parse(Buffer.from(String(base64), 'base64').toString('utf8'));
}
