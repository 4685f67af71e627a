import { getEventListeners } from 'node:events';
import { expect, onTestFinished, test, vi } from 'vitest';
import { limitedSignal } from '../../../src/lib/http-request.ts';

test('it aborts when the maker of requests stops, and at once when that was before', () => {
  const stopping = new AbortController();
  const { signal } = limitedSignal(60_000, stopping.signal);
  expect(signal.aborted).toBe(false);
  stopping.abort('enough');
  expect(signal.reason).toBe('enough');
  expect(limitedSignal(60_000, stopping.signal).signal.aborted).toBe(true);
});

test('it aborts after its time', () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { signal } = limitedSignal(1000);
  vi.advanceTimersByTime(999);
  expect(signal.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect(signal.reason).toMatchObject({ name: 'TimeoutError' });
});

test('nothing of it stays when it is over', () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const stopping = new AbortController();
  const { signal, over } = limitedSignal(1000, stopping.signal);
  expect(getEventListeners(stopping.signal, 'abort')).toHaveLength(1);
  over();
  expect(getEventListeners(stopping.signal, 'abort')).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
  stopping.abort();
  expect(signal.aborted).toBe(false);
});
