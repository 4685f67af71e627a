/**
 * Opens a page of ours in the user's browser. The link has a token, and every user of the machine can read the
 * arguments of a program: so the browser is given a file that only this user can read, which leads to the page.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { platform } from 'node:process';
import { setTimeout as elapsed } from 'node:timers/promises';
import { replaceFile } from '../../lib/files.ts';
import type { CommandContext } from './context.ts';
import { findProgram } from './find-program.ts';

/** A program that still runs then is the browser itself. */
const OPENED_MS = 3_000;

/** True when a browser was asked to open `url`. `file` is written for it, and stays. */
export async function openInBrowser(context: CommandContext, url: string, file: string): Promise<boolean> {
  const opener = openerOf(context);
  if (opener === undefined) return false;
  // A new file is for this user alone; one that was there would keep its mode.
  await rm(file, { force: true });
  await replaceFile(file, pageLeadingTo(url));
  const started = spawn(opener, [file], { detached: true, stdio: 'ignore', env: context.env });
  started.unref();
  const waiting = new AbortController();
  try {
    return await Promise.race([
      once(started, 'exit', { signal: waiting.signal }).then(([code]) => code === 0),
      elapsed(OPENED_MS, true, { signal: waiting.signal }),
    ]);
  } catch {
    // It could not be run.
    return false;
  } finally {
    waiting.abort();
  }
}

/** The program that opens a file as a click on it would; undefined where there is no screen. */
function openerOf({ env }: CommandContext): string | undefined {
  if (platform === 'darwin') return findProgram('open', env['PATH']);
  const hasScreen = ['DISPLAY', 'WAYLAND_DISPLAY', 'BROWSER'].some((name) => (env[name] ?? '') !== '');
  return hasScreen ? findProgram('xdg-open', env['PATH']) : undefined;
}

/** The link is not text of others: it has no character that HTML knows. */
function pageLeadingTo(url: string): string {
  return (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; ' +
    `url=${url}"><title>Poste</title>\n`
  );
}
