/** Finds which promises have an answer already, once everything that is ready has run. */
import { setImmediate as immediate } from 'node:timers/promises';

/** The names of the promises that are settled after several turns of the event loop. */
export async function settled(promises: Readonly<Record<string, Promise<unknown>>>): Promise<string[]> {
  const names: string[] = [];
  for (const [name, promise] of Object.entries(promises)) {
    const note = (): void => void names.push(name);
    void promise.then(note, note);
  }
  for (let turn = 0; turn < 5; turn++) await immediate();
  return names;
}
