/** `docs/protocol.md` as a machine can read it: its fenced blocks and its tables. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export const PROTOCOL_DOCUMENT = readFileSync(join(import.meta.dirname, '../../docs/protocol.md'), 'utf8');

export interface FencedBlock {
  language: string;
  /** The words behind the language: a vector file, a case, and a path of members in it, joined by ` > `. */
  label: string;
  text: string;
}

export function fencedBlocks(document: string): FencedBlock[] {
  const blocks = document.matchAll(/^```(?<language>\S*)(?: (?<label>.*))?\n(?<text>[^]*?)\n```$/gm);
  return Array.from(blocks, ({ groups }) => {
    return { language: groups?.['language'] ?? '', label: groups?.['label'] ?? '', text: groups?.['text'] ?? '' };
  });
}

/** The cells of every row of the table whose head is `head`, without the backquotes of cells that are code alone. */
export function tableRows(document: string, ...head: string[]): string[][] {
  const lines = document.split('\n');
  const start = lines.indexOf(`| ${head.join(' | ')} |`.replaceAll('|  |', '| |'));
  if (start === -1) throw new Error(`the document has no table ${head.join(', ')}`);
  const rows: string[][] = [];
  for (const line of lines.slice(start + 2)) {
    if (!line.startsWith('|')) break;
    const cells = line.slice(1, -1).split('|');
    rows.push(cells.map((cell) => cell.trim().replace(/^`([^`]*)`$/, '$1')));
  }
  return rows;
}
