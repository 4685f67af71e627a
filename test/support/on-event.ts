/** Listeners of tests, which hear of every event of a host. */
import type { HostEvent } from '../../src/host/base/context.ts';

/**
 * Calls `listener` for every event from now on, after the listeners of the host. Returns the function that ends that.
 */
export function onEvent(
  target: { emit: (event: HostEvent) => void },
  listener: (event: HostEvent) => void,
): () => void {
  const emit = target.emit.bind(target);
  let isListening = true;
  target.emit = (event) => {
    emit(event);
    if (isListening) listener(event);
  };
  return () => {
    isListening = false;
  };
}
