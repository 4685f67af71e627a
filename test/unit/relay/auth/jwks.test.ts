/** The issuer's keys over real HTTP, with time moved by hand. */
import { createServer } from 'node:http';
import { once } from 'node:events';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { AuthorityUnavailable } from '../../../../src/relay/auth/authority.ts';
import {
  JWKS_FETCH_MS,
  JWKS_REFRESH_MS,
  JWKS_STALE_MAX_MS,
  Jwks,
  KEY_SET_BYTES_MAX,
} from '../../../../src/relay/auth/jwks.ts';
import { deferred } from '../../../support/deferred.ts';
import { type LocalIssuer, issuerForTest } from '../../../support/local-issuer.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';
import { settled } from '../../../support/settled.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** A cache of the issuer's keys, and its time. */
class Cache {
  readonly timers = new ManualTimers();
  readonly failures: string[] = [];
  readonly jwks: Jwks;
  #nowMs = 0;

  constructor(url: string) {
    const monotonicMs = (): number => this.#nowMs;
    const failed = (reason: string): void => void this.failures.push(reason);
    this.jwks = new Jwks({ url, fetch, monotonicMs, timers: this.timers, failed });
  }

  /** Says whether `kid` names a key now, or why that cannot be said. */
  async ask(kid: string): Promise<boolean | 'unavailable'> {
    try {
      return (await this.jwks.key(kid, 'EdDSA')) !== undefined;
    } catch (error) {
      if (error instanceof AuthorityUnavailable) return 'unavailable';
      throw error;
    }
  }

  /** Moves the clock alone: no timer fires. */
  later(ms: number): void {
    this.#nowMs += ms;
  }

  /** Moves clock and timers, and waits for the fetch that a timer may have begun at the end of it. */
  async pass(ms: number): Promise<void> {
    this.#nowMs += ms;
    this.timers.pass(ms);
    await vi.waitUntil(() => this.timers.underWay(JWKS_FETCH_MS) === 0, { interval: 2, timeout: PATIENCE_MS });
  }
}

async function opened(): Promise<{ issuer: LocalIssuer; cache: Cache }> {
  const issuer = await issuerForTest();
  const cache = new Cache(issuer.settings.jwksUrl);
  onTestFinished(() => cache.jwks.close());
  return { issuer, cache };
}

describe('enrolment rule 8: the keys are kept by kid', () => {
  test('they are fetched once, for all callers', async () => {
    const { issuer, cache } = await opened();
    const asked = Array.from({ length: 50 }, () => cache.ask('key-1'));
    expect(new Set(await Promise.all(asked))).toEqual(new Set([true]));
    expect(await cache.ask('key-1')).toBe(true);
    expect(issuer.requests).toBe(1);
  });

  test('a key verifies its own algorithm only', async () => {
    const { issuer, cache } = await opened();
    await issuer.publish('key-2', 'ES256');
    expect(await cache.jwks.key('key-2', 'ES256')).toMatchObject({ type: 'public' });
    expect(await cache.jwks.key('key-2', 'EdDSA')).toBeUndefined();
    expect(await cache.jwks.key('key-1', 'RS256')).toBeUndefined();
    expect(issuer.requests).toBe(1);
  });
});

describe('enrolment rule 8: an unknown kid', () => {
  test('is looked for at the issuer at once, and a new key is good from then on', async () => {
    const { issuer, cache } = await opened();
    await cache.ask('key-1');
    await issuer.publish('key-2');
    cache.later(1);
    expect(await cache.ask('key-2')).toBe(true);
    expect(issuer.requests).toBe(2);
  });

  test('is looked for at most once a minute, for any id and any caller', async () => {
    const { issuer, cache } = await opened();
    await cache.ask('key-1');
    cache.later(1);
    for (let count = 0; count < 20; count++) expect(await cache.ask(`guess-${count}`)).toBe(false);
    expect(issuer.requests).toBe(2);
    cache.later(MINUTE_MS - 1);
    await Promise.all(Array.from({ length: 20 }, (_, count) => cache.ask(`late-${count}`)));
    expect(issuer.requests).toBe(2);
    cache.later(1);
    await issuer.publish('key-2');
    const answers = Array.from({ length: 20 }, (_, count) => cache.ask(count % 2 === 0 ? 'key-2' : 'key-3'));
    expect((await Promise.all(answers)).filter((isKnown) => isKnown === true)).toHaveLength(10);
    expect(issuer.requests).toBe(3);
  });

  test('of the very first question is answered by the first fetch, which is no refetch', async () => {
    const { issuer, cache } = await opened();
    expect(await cache.ask('guess')).toBe(false);
    expect(issuer.requests).toBe(1);
    cache.later(1);
    await issuer.publish('key-2');
    expect(await cache.ask('key-2')).toBe(true);
    expect(issuer.requests).toBe(2);
  });

  test('waits for a fetch that is under way, and has one of its own when that one was too early', async () => {
    const { issuer, cache } = await opened();
    await cache.ask('key-1');
    const held = deferred();
    const arrived = deferred();
    const before = JSON.stringify({ keys: issuer.published });
    issuer.answer = (_request, response) => {
      arrived.resolve();
      void held.promise.then(() => response.end(before));
    };
    cache.timers.pass(JWKS_REFRESH_MS);
    await arrived.promise;
    // The answer of the refresh is written already when the key is published.
    await issuer.publish('key-2');
    issuer.answer = undefined;
    cache.later(1);
    const asked = cache.ask('key-2');
    expect(await settled({ asked })).toEqual([]);
    held.resolve();
    expect(await asked).toBe(true);
    expect(issuer.requests).toBe(3);
  });
});

describe('enrolment rule 8: the refresh', () => {
  test('comes every 10 minutes, and a removed key stops at once', async () => {
    const { issuer, cache } = await opened();
    await issuer.publish('key-2');
    await cache.jwks.start();
    issuer.withdraw('key-2');
    await cache.pass(10 * MINUTE_MS - 1);
    expect(issuer.requests).toBe(1);
    expect(await cache.ask('key-2')).toBe(true);
    await cache.pass(1);
    expect(issuer.requests).toBe(2);
    expect(await cache.ask('key-2')).toBe(false);
    expect(await cache.ask('key-1')).toBe(true);
    for (let requests = 3; requests <= 7; requests++) {
      await cache.pass(10 * MINUTE_MS);
      expect(issuer.requests).toBe(requests);
    }
  });

  test('also brings a set without any key, and then nothing verifies', async () => {
    const { issuer, cache } = await opened();
    await cache.jwks.start();
    issuer.withdraw('key-1');
    cache.later(MINUTE_MS);
    // Any unknown kid brings the new set.
    expect(await cache.ask('guess')).toBe(false);
    expect(await cache.ask('key-1')).toBe(false);
  });

  test('ends with close, and so does a fetch that is under way', async () => {
    const { issuer, cache } = await opened();
    const arrived = deferred();
    issuer.answer = () => arrived.resolve();
    const started = cache.jwks.start();
    await arrived.promise;
    cache.jwks.close();
    await started;
    expect(cache.failures).toEqual([]);
    expect(cache.timers.underWay(JWKS_REFRESH_MS) + cache.timers.underWay(MINUTE_MS)).toBe(0);
    issuer.answer = undefined;
    cache.later(HOUR_MS);
    cache.timers.pass(HOUR_MS);
    expect(await cache.ask('key-1')).toBe('unavailable');
    expect(issuer.requests).toBe(1);
  });
});

describe('enrolment rule 8: when the issuer is away', () => {
  test('a first fetch that fails is unavailable, and the next one may succeed', async () => {
    const { issuer, cache } = await opened();
    issuer.fail();
    expect(await cache.ask('key-1')).toBe('unavailable');
    expect(cache.failures).toEqual(['the answer was 503']);
    issuer.answer = undefined;
    cache.later(10_000);
    expect(await cache.ask('key-1')).toBe(true);
  });

  test('the last set is used until an hour after it was asked for, then nobody is let in', async () => {
    const { issuer, cache } = await opened();
    await cache.jwks.start();
    issuer.fail();
    for (let passedMs = 0; passedMs < HOUR_MS - MINUTE_MS; passedMs += MINUTE_MS) {
      expect(await cache.ask('key-1')).toBe(true);
      await cache.pass(MINUTE_MS);
    }
    await cache.pass(MINUTE_MS - 1);
    expect(await cache.ask('key-1')).toBe(true);
    cache.later(1);
    expect(await cache.ask('key-1')).toBe('unavailable');
    expect(cache.failures.length).toBeGreaterThan(5);
    issuer.answer = undefined;
    await cache.pass(MINUTE_MS);
    expect(await cache.ask('key-1')).toBe(true);
    expect(JWKS_STALE_MAX_MS).toBe(HOUR_MS);
  });

  test('an unknown kid is unavailable and not unknown: nobody can say whether it is new', async () => {
    const { issuer, cache } = await opened();
    await cache.jwks.start();
    issuer.fail();
    cache.later(1);
    expect(await cache.ask('key-2')).toBe('unavailable');
    expect(await cache.ask('key-1')).toBe(true);
    await issuer.publish('key-2');
    issuer.answer = undefined;
    cache.later(MINUTE_MS);
    expect(await cache.ask('key-2')).toBe(true);
  });

  test('it is not stormed: those who ask start a fetch every 10 s at most', async () => {
    const { issuer, cache } = await opened();
    issuer.fail();
    for (let passedMs = 0; passedMs < MINUTE_MS; passedMs += 1000) {
      const asked = await Promise.all(Array.from({ length: 20 }, (_, count) => cache.ask(`kid-${count}`)));
      expect(new Set(asked)).toEqual(new Set(['unavailable']));
      cache.later(1000);
    }
    expect(issuer.requests).toBe(6);
  });

  test('it is tried again every minute, so that what was removed stops soon after', async () => {
    const { issuer, cache } = await opened();
    await issuer.publish('key-2');
    await cache.jwks.start();
    issuer.fail();
    await cache.pass(JWKS_REFRESH_MS);
    expect(cache.failures).toHaveLength(1);
    issuer.withdraw('key-2');
    issuer.answer = undefined;
    expect(await cache.ask('key-2')).toBe(true);
    await cache.pass(MINUTE_MS);
    expect(issuer.requests).toBe(3);
    expect(await cache.ask('key-2')).toBe(false);
  });
});

describe('an answer that is no JWK Set is a failed fetch', () => {
  test.each<[string, string | Buffer]>([
    ['no JSON', '<html></html>'],
    ['an array', '[]'],
    ['without keys', '{}'],
    ['with keys that are no array', '{"keys":{}}'],
    ['empty', ''],
    ['not UTF-8', Buffer.from('{"keys":[],"é":1}', 'latin1')],
    ['too deep', `{"keys":${'['.repeat(50)}${']'.repeat(50)}}`],
    ['too large', `{"keys":[]}${' '.repeat(KEY_SET_BYTES_MAX)}`],
  ])('%s', async (_what, body) => {
    const { issuer, cache } = await opened();
    await cache.jwks.start();
    issuer.answer = (_request, response) => void response.end(body);
    cache.later(1);
    expect(await cache.ask('guess')).toBe('unavailable');
    expect(cache.failures).toHaveLength(1);
    // The set before it is used on.
    expect(await cache.ask('key-1')).toBe(true);
  });

  test('one that is endless is cut at its bound', async () => {
    const { issuer, cache } = await opened();
    const cut = deferred();
    issuer.answer = (_request, response) => {
      const chunk = Buffer.alloc(65_536, 0x20);
      const more = (): void => {
        while (!response.destroyed && response.write(chunk));
      };
      response.on('drain', more).on('close', cut.resolve);
      more();
    };
    expect(await cache.ask('key-1')).toBe('unavailable');
    await cut.promise;
    expect(cache.failures).toEqual([`the answer has more than ${KEY_SET_BYTES_MAX} bytes`]);
  });

  test('one of exactly the bound is read', async () => {
    const { issuer, cache } = await opened();
    const text = JSON.stringify({ keys: issuer.published });
    issuer.answer = (_request, response) => void response.end(text.padEnd(KEY_SET_BYTES_MAX));
    expect(await cache.ask('key-1')).toBe(true);
  });

  test('one that does not end is given up after 5 s', async () => {
    const { issuer, cache } = await opened();
    const arrived = deferred();
    issuer.answer = (_request, response) => {
      response.write('{"keys":');
      arrived.resolve();
    };
    const asked = cache.ask('key-1');
    await arrived.promise;
    cache.timers.pass(4999);
    expect(await settled({ asked })).toEqual([]);
    cache.timers.pass(1);
    expect(await asked).toBe('unavailable');
    expect(cache.failures).toEqual(['the answer took too long']);
  });

  test('a redirect is not followed', async () => {
    const { issuer, cache } = await opened();
    const other = createServer((_request, response) => void response.end(JSON.stringify({ keys: issuer.published })));
    onTestFinished(() => void other.close());
    let followed = 0;
    other.on('request', () => followed++);
    other.listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    issuer.answer = (_request, response) =>
      void response.writeHead(302, { location: `http://127.0.0.1:${port}/` }).end();
    expect(await cache.ask('key-1')).toBe('unavailable');
    expect(followed).toBe(0);
  });

  test('neither is nobody there', async () => {
    const { issuer, cache } = await opened();
    await issuer.close();
    expect(await cache.ask('key-1')).toBe('unavailable');
    expect(cache.failures[0]).toContain('ECONNREFUSED');
  });
});
