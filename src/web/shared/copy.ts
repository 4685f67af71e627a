/** A button that copies a text, and a command with one. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';

interface CopyButtonProps {
  text: string;
  /** Names the text for screen readers: `the command`. */
  what: string;
}

export function CopyButton({ text, what }: CopyButtonProps): VNode {
  const [state, setState] = useState<'' | 'Copied' | 'Not copied'>('');
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setState('Copied');
    } catch {
      // The browser has no clipboard for this page, or its user forbids it.
      setState('Not copied');
    }
  };
  const label = state === '' ? 'Copy' : state;
  return html`<button type="button" class="quiet copy" aria-label=${`${label} ${what}`} onClick=${() => void copy()}>
      ${label}</button
    ><span class="unseen" role="status">${state}</span>`;
}

export function CommandLine({ text }: { text: string }): VNode {
  return html`<span class="command-line"><code>${text}</code> <${CopyButton} text=${text} what="the command" /></span>`;
}
