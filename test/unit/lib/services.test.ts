/** Services drain together and stop one after another, the last first. */
import { expect, test } from 'vitest';
import { Services } from '../../../src/lib/services.ts';
import { deferred } from '../../support/deferred.ts';

test('all drain at once, and stop in the reverse order of their start', async () => {
  const services = new Services();
  const done: string[] = [];
  const gate = deferred();
  const add = (name: string, drained: Promise<void> | undefined) =>
    services.add(name, {
      drain: () => {
        done.push(`drain ${name}`);
        return drained;
      },
      stop: () => void done.push(`stop ${name}`),
    });
  services.add('store', { stop: () => void done.push('stop store') });
  add('engine', gate.promise);
  add('listener', undefined);
  const drained = services.drain();
  expect(done).toEqual(['drain engine', 'drain listener']);
  expect(services.drain()).toBe(drained);
  gate.resolve();
  await drained;
  await Promise.all([services.stop(), services.stop()]);
  expect(done.slice(2)).toEqual(['stop listener', 'stop engine', 'stop store']);
});

test('one that does not stop keeps none of the others from it, and is named', async () => {
  const services = new Services();
  const stopped: string[] = [];
  services.add('store', { stop: () => void stopped.push('store') });
  services.add('engine', { stop: () => Promise.reject(new Error('the disk is gone')) });
  await expect(services.stop()).rejects.toMatchObject({
    message: 'engine did not stop',
    cause: { message: 'the disk is gone' },
  });
  expect(stopped).toEqual(['store']);
});

test('one that does not drain cuts none of the others short, and is named', async () => {
  const services = new Services();
  const gate = deferred();
  let isOver = false;
  services.add('outbox', { drain: () => gate.promise });
  services.add('listener', { drain: () => Promise.reject(new Error('the socket is gone')) });
  const drained = services.drain().finally(() => {
    isOver = true;
  });
  drained.catch(() => undefined);
  await new Promise(setImmediate);
  expect(isOver).toBe(false);
  gate.resolve();
  await expect(drained).rejects.toMatchObject({
    message: 'listener did not drain',
    cause: { message: 'the socket is gone' },
  });
});
