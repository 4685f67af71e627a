/** What Codex does with Poste. */
import { codexSession } from './codex.ts';
import { rest, saidIsWhatHappens, type Scenario } from './scenario.ts';
import { wholeTurn } from './turns.ts';

const SETTLE_MS = 1500;

export const CODEX_SCENARIOS: readonly Scenario[] = [
  {
    programs: ['codex'],
    name: 'idle after a turn: woken',
    async run(world) {
      const terminal = await codexSession(world);
      await wholeTurn(world, terminal);
      await rest(SETTLE_MS);
      return saidIsWhatHappens(world, { said: 'live-wake' });
    },
  },
];
