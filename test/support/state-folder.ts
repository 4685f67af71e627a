/** The state folder of a test run (vitest.config.ts): made by the first relay that needs it, and removed at the end. */
import { rm } from 'node:fs/promises';
import type { TestProject } from 'vitest/node';

export default function setup({ config }: TestProject): () => Promise<void> {
  return () => rm(config.env['XDG_STATE_HOME'] ?? '', { recursive: true, force: true });
}
