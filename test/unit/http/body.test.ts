/** The body reader, fed by an exchange that does what no HTTP parser lets a client do. */
import { describe, expect, test } from 'vitest';
import { BODY_DEADLINE_MS, BodyReader, discardBody } from '../../../src/http/framing.ts';
import type { BodySink, Exchange } from '../../../src/http/exchange.ts';
import { Budget, type Holder, SLOW_AFTER_MS } from '../../../src/http/budget.ts';
import { sha256 } from '../../support/hops.ts';
import { ManualTimers } from '../../support/manual-time.ts';
import { settled } from '../../support/settled.ts';

/** An exchange of which only the body is real. */
class BodyOnly {
  sink: BodySink = () => undefined;
  abort: () => void = () => undefined;

  get exchange(): Exchange {
    const only: Partial<Exchange> = {
      receive: (sink) => {
        this.sink = sink;
      },
      onAborted: (listener) => {
        this.abort = listener;
      },
    };
    return only as Exchange;
  }

  send(text: string, isLast = false): void {
    // As the adapters do: the bytes are good during the call only.
    const chunk = Buffer.from(text);
    this.sink(chunk, isLast);
    chunk.fill(0);
  }
}

let nowMs = 0;
const monotonicMs = (): number => nowMs;

function budgetOf(bytesMax: number): Budget {
  return new Budget({ bytesMax, monotonicMs });
}

function reading(bytesMax: number, budget = budgetOf(1000), holders: Holder[] = []) {
  const body = new BodyOnly();
  const reader = new BodyReader(body.exchange, { budget, holders, expectedBytes: 10 }, bytesMax);
  return { body, reader, budget, result: reader.read() };
}

/** Says whether the budget has room for as much more, while nothing that it holds is slow. */
function hasRoom(budget: Budget, bytes: number, holders: Holder[] = []): boolean {
  const claim = budget.claim({ bytes, holders, expectedBytes: 10, deadlineMs: 1000, cut: () => undefined });
  claim?.release();
  return claim !== undefined;
}

test('a body comes whole, with the hash of all of it', async () => {
  const { body, result } = reading(10);
  body.send('ab');
  body.send('');
  body.send('cde', true);
  expect(await result).toEqual({ type: 'Body', bytes: Buffer.from('abcde'), hash: sha256('abcde') });
});

test('a body of one chunk, and an empty one', async () => {
  const one = reading(10);
  one.body.send('abc', true);
  expect(await one.result).toMatchObject({ bytes: Buffer.from('abc'), hash: sha256('abc') });
  const none = reading(10);
  none.body.send('', true);
  expect(await none.result).toEqual({ type: 'Body', bytes: Buffer.alloc(0), hash: sha256('') });
});

test('a body is counted while it streams: one byte too many ends it, whatever was declared', async () => {
  const { body, result } = reading(5);
  body.send('abc');
  body.send('de');
  expect(await settled({ result })).toEqual([]);
  body.send('f');
  expect(await result).toBe('too large');
  body.send('more', true);
});

test('exactly as many bytes as allowed are fine', async () => {
  const { body, result } = reading(5);
  body.send('abcde');
  body.send('', true);
  expect(await result).toMatchObject({ hash: sha256('abcde') });
});

describe('the budget over all bodies', () => {
  test('only bytes that arrived count, and a body over it is refused', async () => {
    const budget = budgetOf(10);
    const first = reading(100, budget);
    const second = reading(100, budget);
    first.body.send('1234567');
    second.body.send('123');
    second.body.send('4');
    expect(await second.result).toBe('no budget');
    first.body.send('', true);
    expect(await first.result).toMatchObject({ hash: sha256('1234567') });
  });

  test('a caller that holds its share is refused, and nobody else', async () => {
    const budget = budgetOf(10);
    const slowHost: Holder[] = [{ kind: 'key', name: 'slow', bytesMax: 4 }];
    const slow = reading(100, budget, slowHost);
    slow.body.send('1234');
    const more = reading(100, budget, slowHost);
    more.body.send('5');
    expect(await more.result).toBe('no budget');
    const other = reading(100, budget, [{ kind: 'key', name: 'other', bytesMax: 4 }]);
    other.body.send('1234', true);
    expect(await other.result).toMatchObject({ hash: sha256('1234') });
    slow.reader.release();
    expect(hasRoom(budget, 4, slowHost)).toBe(true);
  });

  test('a body that stalls makes room for one that comes, and one that has come whole does not', async () => {
    const budget = budgetOf(10);
    const stalled = reading(100, budget);
    stalled.body.send('123');
    const whole = reading(100, budget);
    whole.body.send('4567', true);
    nowMs += SLOW_AFTER_MS;
    const next = reading(100, budget);
    next.body.send('123456', true);
    expect(await stalled.result).toBe('no budget');
    expect(await whole.result).toMatchObject({ hash: sha256('4567') });
    expect(await next.result).toMatchObject({ hash: sha256('123456') });
    nowMs += SLOW_AFTER_MS;
    expect(hasRoom(budget, 1)).toBe(false);
  });

  test('what a body held is given back once, whatever came of it', () => {
    const budget = budgetOf(10);
    const { body, reader } = reading(100, budget);
    body.send('12345');
    body.abort();
    expect(hasRoom(budget, 6)).toBe(false);
    reader.release();
    reader.release();
    expect(hasRoom(budget, 10)).toBe(true);
    expect(hasRoom(budget, 11)).toBe(false);
  });

  test('a body without a budget is hashed and not kept, and counted all the same', async () => {
    const body = new BodyOnly();
    const result = new BodyReader(body.exchange, undefined, 5).read();
    body.send('abc');
    body.send('de', true);
    expect(await result).toEqual({ type: 'Body', bytes: Buffer.alloc(0), hash: sha256('abcde') });
    const long = new BodyOnly();
    const tooLong = new BodyReader(long.exchange, undefined, 5).read();
    long.send('abcdef');
    expect(await tooLong).toBe('too large');
  });
});

test('a peer that goes away, and one that takes too long, end the read; what comes later changes nothing', async () => {
  const gone = reading(100);
  gone.body.send('abc');
  gone.body.abort();
  gone.body.send('def', true);
  expect(await gone.result).toBe('aborted');
  const late = reading(100);
  late.body.send('abc');
  late.reader.giveUp();
  late.body.send('def', true);
  expect(await late.result).toBe('late');
});

test('a body that nobody wants is read to its end, or until the peer goes away', async () => {
  const timers = new ManualTimers();
  const first = new BodyOnly();
  const read = discardBody(first.exchange, timers);
  first.send('abc');
  expect(await settled({ read })).toEqual([]);
  first.send('', true);
  expect(await settled({ read })).toEqual(['read']);
  const second = new BodyOnly();
  const gone = discardBody(second.exchange, timers);
  second.abort();
  expect(await settled({ gone })).toEqual(['gone']);
  const third = new BodyOnly();
  const late = discardBody(third.exchange, timers);
  third.send('abc');
  timers.pass(BODY_DEADLINE_MS - 1);
  expect(await settled({ late })).toEqual([]);
  timers.pass(1);
  expect(await settled({ late })).toEqual(['late']);
});
