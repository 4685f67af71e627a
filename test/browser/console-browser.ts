/** The console of a relay in this process, whose samples come when the test says that time has passed. */
import { ControlClient } from '../../src/cli/relay/control-client.ts';
import type { HttpRelay } from '../support/http-relay.ts';
import { PageWindow } from '../support/page-browser.ts';

const SAMPLE_MS = 2_000;

/** The one-time URL that `poste relay console` prints. */
export async function consoleUrl(relay: HttpRelay): Promise<string> {
  return (await new ControlClient(relay.folder).post('/v1/console', {})).url;
}

/** Two seconds pass: the relay takes a sample and sends it. */
export function sample(relay: HttpRelay, times = 1): void {
  for (let time = 0; time < times; time++) {
    relay.clock.move(SAMPLE_MS);
    relay.timers.pass(SAMPLE_MS);
  }
}

export class ConsoleWindow extends PageWindow<HttpRelay> {
  /** Opens the console of `relay` with a fresh link; it is live when this resolves. */
  async enter(relay: HttpRelay): Promise<void> {
    await this.page.goto(await consoleUrl(relay));
    await this.heading('Overview');
    await this.page.getByText('live', { exact: true }).waitFor();
  }
}
