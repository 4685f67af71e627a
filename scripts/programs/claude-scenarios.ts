/** What Claude Code does with Poste. */
import { claudeSession, wholeTurn } from './claude.ts';
import { rest, saidIsWhatHappens, type Scenario } from './scenario.ts';

/** After a turn its Stop hook begins to wait: nothing shows when it does. */
const SETTLE_MS = 1500;

export const CLAUDE_SCENARIOS: readonly Scenario[] = [
  {
    programs: ['claude'],
    name: 'idle after a turn, with hooks: woken',
    async run(world) {
      const terminal = await claudeSession(world);
      await wholeTurn(world, terminal);
      await rest(SETTLE_MS);
      return saidIsWhatHappens(world, 'live-wake');
    },
  },
];
