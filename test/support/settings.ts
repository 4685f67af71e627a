/** Relay settings: the documented limits, or smaller ones where a test wants to reach them. */
import { DEFAULT_LIMITS, type Limits } from '../../src/protocol/limits.ts';
import type { RelaySettings } from '../../src/relay/core/decision.ts';

export interface SettingsChanges extends Partial<Omit<RelaySettings, 'limits'>> {
  limits?: Partial<Limits>;
}

export function settingsWith({ limits, ...others }: SettingsChanges = {}): RelaySettings {
  const defaults = { admission: 'open', enrolmentsMax: 10_000, dedupRowsMax: 1_000_000 } as const;
  return { ...defaults, ...others, limits: { ...DEFAULT_LIMITS, ...limits } };
}
