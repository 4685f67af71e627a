/** The office of this process: its clock, its dice, and who the host is, over a store that is open. */
import { randomBytes } from 'node:crypto';
import { Bell } from './office/bell.ts';
import type { Identity, Office } from './office/office.ts';
import type { HostStore } from './store/host-store.ts';

export function ownOffice(store: HostStore, first: Identity, log: Office['log']): Office {
  const bell = new Bell();
  let current = first;
  // Before any other listener: whoever is told of a new key finds it.
  bell.listen((happening) => {
    if (happening.type === 'identity-changed') current = happening.identity;
  });
  return {
    store,
    identity: () => current,
    nowMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    randomBytes: (count) => randomBytes(count),
    tell: (happening) => bell.tell(happening),
    listen: (listener) => bell.listen(listener),
    log,
  };
}
