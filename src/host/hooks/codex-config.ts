/** What Codex's `config.toml` says about hooks: it is read, never written. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TomlError, parse as parseToml } from 'smol-toml';
import { SettingsRefused } from './hook-settings.ts';

const TRUST = 'Codex runs a hook only when you trust it: give it the command /hooks once.';

/** What the owner has to do besides, in sentences. Throws `SettingsRefused` when the file is no TOML. */
export function codexNotices(folder: string): string[] {
  const path = join(folder, 'config.toml');
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    return [TRUST];
  }
  let config: Record<string, unknown>;
  try {
    config = parseToml(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    throw new SettingsRefused(`cannot be used as long as ${path}, line ${error.line}, is no TOML`);
  }
  const features = config['features'] as Record<string, unknown> | undefined;
  const isOff = features?.['hooks'] === false || features?.['codex_hooks'] === false;
  const off = `Hooks are turned off in ${path}: set hooks = true in its table [features].`;
  return isOff ? [off, TRUST] : [TRUST];
}
