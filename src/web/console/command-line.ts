/** A command with a button that copies it. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { CopyButton } from '../shared/copy.ts';

export function CommandLine({ text }: { text: string }): VNode {
  return html`<span class="command-line"><code>${text}</code> <${CopyButton} text=${text} what="the command" /></span>`;
}
